//! Files of a test among the system's temporary files.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// The path of a file or folder that is removed when this is dropped.
#[derive(Debug)]
pub struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// Returns a path with `purpose` in its name, at which there is nothing yet.
    #[must_use]
    pub fn new(purpose: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("thalweg-{purpose}-{}-{number}", std::process::id());
        let path = Self(std::env::temp_dir().join(name));
        // A process with the same number may have been killed.
        path.remove();
        path
    }

    /// Creates a file with this text.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn file(purpose: &str, text: &str) -> Self {
        let path = Self::new(purpose);
        fs::write(&path.0, text).expect("write a file");
        path
    }

    /// Creates an empty folder.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    pub fn folder(purpose: &str) -> Self {
        let path = Self::new(purpose);
        fs::create_dir(&path.0).expect("make a folder");
        path
    }

    /// Returns the path as text.
    ///
    /// # Panics
    /// If it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.to_str().expect("a path is text")
    }

    /// Returns the path of this name in the folder, as text.
    #[must_use]
    pub fn inside(&self, name: &str) -> String {
        format!("{}/{name}", self.text())
    }

    fn remove(&self) {
        // Fails if there is nothing.
        let _ = fs::remove_dir_all(&self.0).or_else(|_| fs::remove_file(&self.0));
    }
}

impl Deref for TemporaryPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        self.remove();
    }
}
