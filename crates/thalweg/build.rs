//! Adds the version and tree of the sources to the binary, so that a run names the measured program, and the
//! pages, if they are built.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use flate2::{Compression, write::GzEncoder};

/// The output of `npm run build` in `web/`.
const PAGES: &str = "../../web/ui/dist";
/// The output of `make docs`: the documentation as a book.
const BOOK: &str = "../../book/dist";
/// The path of the workspace.
const ROOT: &str = "../..";
/// Sources that affect the figures of a run. Others are docs, pages and archives.
const MEASURED: [&str; 3] = ["crates", "lab/subjects", "Cargo.lock"];

fn main() -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let commit = said_by("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    let rustc = env::var("RUSTC").map_or_else(|_| String::new(), |found| said_by(&found, &["-V"]));
    let tree = tree().map_or_else(String::new, |tree| format!("tree {tree}"));
    let parts = [version, &commit, &tree, &rustc];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    println!("cargo::rustc-env=THALWEG_VERSION={}", parts.join(", "));
    // In a linked worktree the file is elsewhere.
    watch([Path::new(&said_by("git", &["rev-parse", "--git-path", "logs/HEAD"]))]);
    // The state `modified` may change with any source.
    println!("cargo::rerun-if-changed=../../crates");
    // Files are watched one by one, because the build of a subject leaves other files beside its sources.
    for path in said_by("git", &["-C", ROOT, "ls-files", "lab/subjects", "Cargo.lock"]).lines() {
        println!("cargo::rerun-if-changed={ROOT}/{path}");
    }
    // The path at run time, not at compile time: a target folder may be shared.
    let here = env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?;
    let (pages, book) = (PathBuf::from(&here).join(PAGES), PathBuf::from(here).join(BOOK));
    // Without pages, the folders in which they would appear are watched.
    watch(pages.ancestors().take(3));
    watch(book.ancestors().take(2));
    embed(&[(&pages, "/", "THALWEG_PAGES"), (&book, "/docs/", "THALWEG_BOOK")])
}

/// Returns the hash of the measured sources: `git ls-tree HEAD crates lab/subjects Cargo.lock | git
/// hash-object --stdin`, with `modified` if files differ from the commit. Returns `None` without git.
fn tree() -> Option<String> {
    let listed = |command: &[&str]| said_by("git", &[&["-C", ROOT], command, &MEASURED].concat());
    let entries = listed(&["ls-tree", "HEAD"]);
    if entries.is_empty() {
        return None;
    }
    let mut git = Command::new("git")
        .args(["hash-object", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    git.stdin.take()?.write_all(format!("{entries}\n").as_bytes()).ok()?;
    let hash = String::from_utf8(git.wait_with_output().ok()?.stdout).ok()?;
    let is_clean = listed(&["diff", "--name-only", "HEAD", "--"]).is_empty();
    let modified = if is_clean { "" } else { " modified" };
    Some(format!("{}{modified}", hash.get(..12)?))
}

/// Lets cargo build again when the first existing one of these changes. A missing file would trigger every
/// build.
fn watch<'a>(paths: impl IntoIterator<Item = &'a Path>) {
    if let Some(path) = paths.into_iter().find(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// Returns the output of a program, empty if it is missing: a source archive has no git.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    }
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

/// Collects all files below `folder` that browsers request, without hidden files and source maps.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden =
            path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden || path.extension().is_some_and(|ending| ending == "map") {
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
