//! The documentation as a book: every page is in its contents, and links name headings that exist. The check
//! does not need mdBook, which builds the pages.

use std::collections::{BTreeMap, BTreeSet};

use super::{finding::Finding, links};
use crate::tree::Tree;

const FOLDER: &str = "docs/";
const CONTENTS: &str = "docs/SUMMARY.md";

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let pages: BTreeMap<&str, &str> =
        tree.texts().filter(|(path, _)| path.ends_with(".md")).collect();
    let Some(contents) = pages.get(CONTENTS) else { return };
    let listed: BTreeSet<String> = contents
        .lines()
        .flat_map(links::targets)
        .filter_map(|target| links::resolve(CONTENTS, target))
        .collect();
    for path in pages.keys().filter(|path| path.starts_with(FOLDER) && **path != CONTENTS) {
        if !listed.contains(*path) {
            let what = format!("{CONTENTS} does not list this page");
            findings.push(Finding::new(path, 1, what, "add a line for it"));
        }
    }
    for (path, text) in &pages {
        for (line, target) in links::outside_of_code(text) {
            let Some((page, heading)) = target.split_once('#') else { continue };
            let page =
                if page.is_empty() { Some((*path).to_owned()) } else { links::resolve(path, page) };
            let Some(text) = page.and_then(|page| pages.get(&*page)) else { continue };
            if !heading.is_empty() && !anchors(text).contains(heading) {
                let what = format!("{target} names no heading of that page");
                findings.push(Finding::new(path, line, what, "name a heading that exists"));
            }
        }
    }
}

/// Returns the fragments that link to the headings of a page, as GitHub and mdBook create them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if let Some((_, rest)) = line.split_once(" id=\"").filter(|_| !is_code) {
            anchors.extend(rest.split('"').next().map(str::to_owned));
        }
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = title
            .trim()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
            .map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
            .collect();
        // GitHub numbers a heading that occurs again.
        let again = (1..).map(|number| format!("{slug}-{number}"));
        let slug = std::iter::once(slug.clone()).chain(again).find(|slug| !anchors.contains(slug));
        anchors.extend(slug);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let mut findings = Vec::new();
        super::check(&Tree::from_files(files), &mut findings);
        let found: Vec<_> = findings.iter().map(|finding| finding.what.clone()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_page_is_in_the_contents() {
        check(
            &[(CONTENTS, "[A](a.md)\n- [B](b/b.md)"), ("docs/a.md", ""), ("docs/b/b.md", "")],
            &[],
        );
        let what = format!("{CONTENTS} does not list this page");
        check(&[(CONTENTS, "[A](a.md)"), ("docs/a.md", ""), ("docs/b.md", "")], &[&what]);
    }

    #[test]
    fn links_name_headings_that_exist() {
        let page = "# A page\n## `code` and, more\n```\n# no heading\n```\n## Again\n## Again\n<a id=\"x\"></a> ";
        let links = "[1](a.md#code-and-more) [2](a.md#again-1) [3](a.md#x) [4](#here)\n# Here";
        check(&[(CONTENTS, "[A](a.md) [B](b.md)"), ("docs/a.md", page), ("docs/b.md", links)], &[]);
        let links = "[1](a.md#no-heading)";
        let what = "a.md#no-heading names no heading of that page";
        check(
            &[(CONTENTS, "[A](a.md) [B](b.md)"), ("docs/a.md", page), ("docs/b.md", links)],
            &[what],
        );
    }
}
