//! Finds Chromium.

use anyhow::bail;
use std::path::PathBuf;

/// Variable that names Chromium if it is not on the `PATH`.
pub const PROGRAM: &str = "THALWEG_CHROMIUM";
/// Names in several distributions.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Finds Chromium. An error is one sentence with the remedy.
pub fn find() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    find_in(named, &folders)
}

fn find_in(named: Option<PathBuf>, folders: &[PathBuf]) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        if named.is_file() {
            return Ok(named);
        }
        let named = named.display();
        bail!("there is no Chromium at {named}, which {PROGRAM} names: name another, or unset it");
    }
    let all = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    match all.into_iter().find(|path| path.is_file()) {
        Some(found) => Ok(found),
        None => bail!(
            "there is no Chromium on this machine: install one, e.g. apt-get install chromium, or \
             name its program with {PROGRAM}"
        ),
    }
}

/// Returns whether Chromium refuses to run with its sandbox, as it does for root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(super) fn version_of(product: &str) -> String {
    product.replacen("Chrome/", "Chromium ", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_missing_browser_names_the_remedy() {
        let none = find_in(None, &[PathBuf::from("/nowhere")]).unwrap_err().to_string();
        assert!(none.contains("apt-get install chromium") && none.contains(PROGRAM), "{none}");
        let named = find_in(Some("/no/chromium".into()), &[]).unwrap_err().to_string();
        assert_eq!(
            named,
            "there is no Chromium at /no/chromium, which THALWEG_CHROMIUM names: name another, or unset it"
        );
        let here = std::env::current_exe().unwrap();
        assert_eq!(find_in(Some(here.clone()), &[]).unwrap(), here);
    }
}
