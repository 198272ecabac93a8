use std::{fs, io::Write as _, os::unix::fs::symlink};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use thalweg_testing::TemporaryPath;

use super::*;

/// A temporary folder.
struct Place(TemporaryPath);

impl Place {
    fn new(name: &str) -> Self {
        Self(TemporaryPath::folder(name))
    }

    fn write(&self, run: &str, file: &str, text: &str) {
        fs::create_dir_all(self.0.join(run)).unwrap();
        fs::write(self.0.join(run).join(file), text).unwrap();
    }

    fn write_compressed(&self, run: &str, file: &str, text: &str) {
        fs::create_dir_all(self.0.join(run)).unwrap();
        let file = File::create(self.0.join(run).join(compressed(file))).unwrap();
        let mut encoder = GzEncoder::new(file, Compression::best());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap();
    }

    fn listed(&self) -> Vec<Value> {
        let (runs, _) = listed(&Folder::open(&self.0).unwrap()).unwrap();
        runs.iter().map(|run| serde_json::to_value(run).unwrap()).collect()
    }
}

#[test]
fn a_name_is_one_step_down() {
    for name in ["a", "2026-11-21-fanout", "a b", "é", "a..b", "-"] {
        assert!(is_name(name), "{name}");
    }
    let long = "x".repeat(256);
    for name in ["", ".", "..", ".hidden", "a/b", "/", "a\\b", "a\0", &long] {
        assert!(!is_name(name), "{name}");
    }
}

#[test]
fn the_newest_run_is_first_and_what_is_not_known_of_one_is_left_out() {
    let place = Place::new("listed");
    let manifest = |begun: &str| {
        let machine = json!({"cpu": "a processor", "cores": 2, "kernel": "x"});
        json!({"version": "0.1.0", "begun": begun, "machine": machine}).to_string()
    };
    place.write("old", "plan.json", r#"{"name": "fanout", "title": "one to many", "parts": []}"#);
    place.write("old", "manifest.json", &manifest("2026-01-01T00:00:00Z"));
    place.write("old", "report.html", "<!doctype html>");
    place.write("new", "plan.json", "{}");
    place.write("new", "manifest.json", &manifest("2026-02-01T00:00:00Z"));
    place.write("broken", "plan.json", "{\"name\": ");
    place.write("broken", "manifest.json", "[]");
    place.write("broken", "summary.json", "");
    place.write("no-run", "notes.txt", "");
    fs::write(place.0.join("a-file"), "").unwrap();
    let listed = place.listed();
    let names: Vec<&str> = listed.iter().filter_map(|run| run["name"].as_str()).collect();
    assert_eq!(names, ["new", "old", "broken"]);
    let old = json!({
        "name": "old", "scenario": "fanout", "title": "one to many",
        "begun": "2026-01-01T00:00:00Z", "version": "0.1.0",
        "machine": "a processor, 2 cores", "has_report": true, "has_summary": false,
    });
    assert_eq!(listed[1], old);
    let broken = json!({"name": "broken", "has_report": false, "has_summary": true});
    assert_eq!(listed[2], broken);
}

#[test]
fn files_of_an_archived_run_are_compressed() {
    let place = Place::new("archived");
    place.write_compressed("kept", "plan.json", r#"{"name": "fanout", "title": "one to many"}"#);
    place.write_compressed("kept", "summary.json", "12345");
    let kept = json!({
        "name": "kept", "scenario": "fanout", "title": "one to many",
        "has_report": false, "has_summary": true,
    });
    assert_eq!(place.listed(), [kept]);
    let run = Folder::open(&place.0.join("kept")).unwrap();
    assert_eq!(run.read("summary.json", 30), Ok(b"12345".to_vec()));
    // A small file may hold many bytes.
    place.write_compressed("kept", "manifest.json", &"1".repeat(1000));
    assert_eq!(run.read("manifest.json", 999), Err(NotRead::TooLarge));
    place.write("kept", "report.html.gz", "no gzip");
    assert_eq!(run.read("report.html", 100), Err(NotRead::NotThere));
}

#[test]
fn links_lead_nowhere() {
    let (inside, outside) = (Place::new("inside"), Place::new("outside"));
    outside.write("run", "plan.json", "{}");
    outside.write("run", "report.html", "secret");
    symlink(outside.0.join("run"), inside.0.join("linked")).unwrap();
    fs::create_dir(inside.0.join("run")).unwrap();
    let file = outside.0.join("run/report.html");
    symlink(&file, inside.0.join("run/report.html")).unwrap();
    symlink(outside.0.join("run/plan.json"), inside.0.join("run/plan.json")).unwrap();
    assert!(file.exists() && inside.0.join("run/report.html").exists());
    assert_eq!(inside.listed(), [Value::Null; 0]);
    let store = Folder::open(&inside.0).unwrap();
    assert!(store.folder("linked").is_err());
    let run = store.folder("run").unwrap();
    assert_eq!(run.read("report.html", 100), Err(NotRead::NotThere));
    // The path of the user may be a link.
    let link = outside.0.join("link");
    symlink(&*inside.0, &link).unwrap();
    assert!(Folder::open(&link).is_ok());
}

#[test]
fn folders_and_oversized_files_are_not_read() {
    let place = Place::new("files");
    place.write("run", "summary.json", "12345");
    fs::create_dir(place.0.join("run/report.html")).unwrap();
    let pipe = place.0.join("run/manifest.json");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let run = Folder::open(&place.0.join("run")).unwrap();
    assert_eq!(run.read("summary.json", 5), Ok(b"12345".to_vec()));
    assert_eq!(run.read("summary.json", 4), Err(NotRead::TooLarge));
    for name in ["report.html", "manifest.json", "none"] {
        assert_eq!(run.read(name, 100), Err(NotRead::NotThere), "{name}");
        assert!(!run.has(name), "{name}");
    }
}

#[test]
fn a_file_is_refused_with_the_remedy_and_a_missing_folder_may_come() {
    let place = Place::new("refused");
    assert!(Runs::new(&place.0.join("none")).is_ok());
    fs::write(place.0.join("file"), "").unwrap();
    let refusal = Runs::new(&place.0.join("file")).unwrap_err();
    assert!(refusal.contains("not a readable folder") && refusal.contains("thalweg-lab bench"));
}

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!(clipped("é".repeat(600)).chars().count(), TEXT_CHARS_MAX);
    assert_eq!(clipped("short".into()), "short");
}
