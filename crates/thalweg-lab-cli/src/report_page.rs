//! The page of a report, which the build script adds.

/// Empty in a build without pages.
const PAGE: &str = include_str!(concat!(env!("OUT_DIR"), "/report.html"));

/// Returns the page of a report without a summary; `None` in a build without pages.
pub(crate) fn report_page() -> Option<&'static str> {
    Some(PAGE).filter(|page| !page.is_empty())
}
