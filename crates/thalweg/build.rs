//! Stamps the binary with what it was built from, so that a run says what was
//! measured; and puts the pages into it, if they are built.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use flate2::{Compression, write::GzEncoder};

/// Where `npm run build` in `web/` leaves the pages.
const PAGES: &str = "../../web/ui/dist";
/// The workspace, as seen from here.
const ROOT: &str = "../..";
/// What decides the figures of a run: the rest is docs, pages and archives.
const MEASURED: [&str; 3] = ["crates", "lab/subjects", "Cargo.lock"];

fn main() -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let commit = said_by("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    let rustc = env::var("RUSTC").map_or_else(|_| String::new(), |it| said_by(&it, &["-V"]));
    let tree = tree().map_or_else(String::new, |tree| format!("tree {tree}"));
    let parts = [version, &commit, &tree, &rustc];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    println!("cargo::rustc-env=THALWEG_VERSION={}", parts.join(", "));
    // Of a linked worktree it lies elsewhere.
    watch([Path::new(&said_by("git", &["rev-parse", "--git-path", "logs/HEAD"]))]);
    // Whether it is dirty changes with any source.
    println!("cargo::rerun-if-changed=../../crates");
    // File by file: what a subject's build leaves beside its sources is not part of it.
    for path in said_by("git", &["-C", ROOT, "ls-files", "lab/subjects", "Cargo.lock"]).lines() {
        println!("cargo::rerun-if-changed={ROOT}/{path}");
    }
    // Of where it runs, not of where it was compiled: a target folder may be shared.
    let here = env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?;
    let pages = PathBuf::from(here).join(PAGES);
    // Where there are none, it is looked at where they would appear.
    watch(pages.ancestors().take(3));
    embed(&pages)
}

/// What is measured, as one hash of git: `git ls-tree HEAD crates lab/subjects Cargo.lock |
/// git hash-object --stdin`; with `modified` where the files are not those of the commit.
/// Nothing without git.
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

/// Has cargo build again when the first of these that is there changes: one that is not
/// would have it build always.
fn watch<'a>(paths: impl IntoIterator<Item = &'a Path>) {
    if let Some(path) = paths.into_iter().find(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// Empty where the program is not there: a source archive has no git.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    }
}

/// Writes what `src/serve/pages.rs` includes: of each page its path in a URL, its bytes,
/// and the same as gzip where that is smaller.
fn embed(pages: &Path) -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let mut files = Vec::new();
    // Without its document the rest is of no use: a build under way, or one that failed.
    if pages.join("index.html").is_file() {
        collect(pages, &mut files)?;
    }
    files.sort();
    let mut code = String::from("[\n");
    for (number, path) in files.iter().enumerate() {
        let inside = path.strip_prefix(pages).map_err(io::Error::other)?;
        let name = inside.to_str().ok_or(io::ErrorKind::InvalidData)?;
        let plain = fs::read(path)?;
        // A copy: what is compiled is what was compressed, whatever is built meanwhile.
        let plain_copy = out.join(format!("page-{number}"));
        fs::write(&plain_copy, &plain)?;
        let gzip = gzipped(&plain)?;
        let gzip = match gzip.len() < plain.len() {
            true => {
                let gzip_copy = out.join(format!("page-{number}.gz"));
                fs::write(&gzip_copy, &gzip)?;
                format!("Some(include_bytes!({gzip_copy:?}).as_slice())")
            }
            false => "None".to_owned(),
        };
        let path = format!("/{name}");
        code += &format!("    ({path:?}, include_bytes!({plain_copy:?}).as_slice(), {gzip}),\n");
    }
    code += "]\n";
    fs::write(out.join("pages.rs"), code)?;
    // For the tests, which hold whether there are pages or not.
    println!("cargo::rustc-env=THALWEG_PAGES={}", files.len());
    Ok(())
}

/// All files below `folder` that browsers ask for: nothing hidden, no source maps.
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
