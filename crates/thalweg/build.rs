//! Adds the version and tree of the sources to the binary, so that a run names the measured program, and the
//! pages, if they are built.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use thalweg_build::{name_version, watch};

/// The output of `npm run build` in `web/`.
const PAGES: &str = "../../web/ui/dist";
/// The lab's report without a summary, which is no page of the server.
const REPORT: &str = "report.html";
/// The output of `make docs`: the documentation as a book.
const BOOK: &str = "../../book/dist";

fn main() -> io::Result<()> {
    name_version();
    // The path at run time, not at compile time: a target folder may be shared.
    let here = env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?;
    let (pages, book) = (PathBuf::from(&here).join(PAGES), PathBuf::from(here).join(BOOK));
    // Without pages, the folders in which they would appear are watched.
    watch(pages.ancestors().take(3));
    watch(book.ancestors().take(2));
    embed(&[(&pages, "/", "THALWEG_PAGES"), (&book, "/docs/", "THALWEG_BOOK")])
}

/// Writes the file that `src/serve/pages.rs` includes: of each page its path in a URL, its bytes, and its
/// gzip form if that is smaller. Each folder has the beginning of its URLs, and the variable that tells the tests
/// the number of its files.
fn embed(folders: &[(&Path, &str, &str)]) -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let mut code = String::from("[\n");
    let mut number = 0;
    for (folder, url, variable) in folders {
        let mut files = Vec::new();
        // Without its document the rest is useless: a build is running, or has failed.
        if folder.join("index.html").is_file() {
            collect(folder, &mut files)?;
        }
        files.sort();
        for path in &files {
            let inside = path.strip_prefix(folder).map_err(io::Error::other)?;
            let name = inside.to_str().ok_or(io::ErrorKind::InvalidData)?;
            code += &copy(&out.join(format!("page-{number}")), path, &format!("{url}{name}"))?;
            number += 1;
        }
        println!("cargo::rustc-env={variable}={}", files.len());
    }
    code += "]\n";
    fs::write(out.join("pages.rs"), code)
}

/// Copies a file and returns its line of code. The copy keeps the page and its compressed form consistent, whatever is
/// built meanwhile.
fn copy(copy: &Path, path: &Path, url: &str) -> io::Result<String> {
    let plain = fs::read(path)?;
    fs::write(copy, &plain)?;
    let gzip = gzipped(&plain)?;
    let gzip = match gzip.len() < plain.len() {
        true => {
            let gzip_copy = copy.with_extension("gz");
            fs::write(&gzip_copy, &gzip)?;
            format!("Some(include_bytes!({gzip_copy:?}).as_slice())")
        }
        false => "None".to_owned(),
    };
    Ok(format!("    ({url:?}, include_bytes!({copy:?}).as_slice(), {gzip}),\n"))
}

/// Collects all files below `folder` that browsers request, without hidden files, source maps and the report.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden =
            path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_map = path.extension().is_some_and(|ending| ending == "map");
        if is_hidden || is_map || path.ends_with(REPORT) {
            continue;
        }
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

fn gzipped(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}
