//! Which settings take effect under which drive. One without effect is refused, because the user expects another measurement.

use super::Drive;
use super::browser::is_of_browsers;
use super::settings::Block;

/// Refuses settings that this drive, or the browser as load, does not use; the error names those that it does.
pub(super) fn expect_used(block: &Block, drive: Drive, in_browser: bool) -> Result<(), String> {
    if let Some(key) = block.keys().find(|key| !drive.uses(key)) {
        return Err(unused(key, drive));
    }
    match block.keys().find(|key| is_of_browsers(key) && !in_browser) {
        Some(key) => Err(format!("{key} has no effect without --browser chromium")),
        None => Ok(()),
    }
}

fn unused(key: &str, drive: Drive) -> String {
    let is_setting = |key: &&&str| !matches!(**key, "subjects" | "baseline");
    let used = Block::KEYS.iter().filter(|key| drive.uses(key)).filter(is_setting);
    let used = used.filter(|key| !is_of_browsers(key));
    let used: Vec<String> = used.map(|key| named(key)).collect();
    let drive = match drive {
        _ if drive.is_of_endpoints() => "--url".to_owned(),
        _ => format!("`{drive}`"),
    };
    format!("{} has no effect with {drive}, which uses {}", named(key), used.join(", "))
}

/// Returns the key as a file has it, and the option if it has another name.
fn named(key: &str) -> String {
    match key {
        "event_bytes" => "event_bytes (--size)".to_owned(),
        "transport" => "transport (--transports)".to_owned(),
        _ => key.to_owned(),
    }
}
