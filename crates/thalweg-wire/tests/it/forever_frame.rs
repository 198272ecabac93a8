//! Reads a forever frame like a browser: scripts in HTML, strings in scripts, JSON in strings.

use proptest::{collection::vec, prelude::*};
use thalweg_wire::{
    Format,
    format::{forever_frame_document, forever_frame_opening},
    notice,
};

use crate::arbitrary::{batch, closes, config, missing};

/// Returns the text within the quotes of the call in `script`, which follows an opening tag.
fn quoted(script: &[u8]) -> &str {
    let script = std::str::from_utf8(script).expect("UTF-8");
    let call = script.strip_suffix("</script>\n").expect("the script's end");
    call.strip_prefix("receive('").and_then(|rest| rest.strip_suffix("')")).expect("a call")
}

/// Reads the string like JavaScript (ECMA-262 §12.9.4); `None` if it ends before its last quote.
fn string(quoted: &str) -> Option<String> {
    let mut string = String::new();
    let mut rest = quoted.chars();
    while let Some(next) = rest.next() {
        string.push(match next {
            '\'' => return None,
            '\\' => match rest.next()? {
                'u' => {
                    let digits: String = rest.by_ref().take(4).collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                itself @ ('\\' | '\'') => itself,
                _ => return None,
            },
            itself => itself,
        });
    }
    Some(string)
}

/// Checks that the page gets `json`, and that the script has a single reading.
fn check(script: &[u8], json: &[u8]) -> Result<(), TestCaseError> {
    let quoted = quoted(script);
    prop_assert!(!quoted.contains(['<', '\u{2028}', '\u{2029}', '\n', '\r']), "{}", quoted);
    let handed = string(quoted);
    prop_assert_eq!(handed.as_deref(), std::str::from_utf8(json).ok());
    Ok(())
}

fn framed(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_message_is_handed_over_as_it_was_written(
        batch in batch(),
        missing in missing(),
        close in closes(),
    ) {
        let format = Format::FOREVER_FRAME;
        check(&framed(|out| format.batch(&batch.envelope(), out)), batch.json().as_bytes())?;
        check(&framed(|out| format.gap(&missing.gap(), out)), missing.json().as_bytes())?;
        check(&framed(|out| format.heartbeat(out)), notice::HEARTBEAT)?;
        check(&framed(|out| format.close(close, out)), &framed(|out| close.write(out)))?;
    }

    #[test]
    fn a_document_is_one_script_a_message(
        batches in vec(batch(), 1..4),
        nonce in "[A-Za-z0-9]{1,32}",
    ) {
        let mut document = Vec::new();
        forever_frame_document(&nonce, &mut document);
        for batch in &batches {
            Format::FOREVER_FRAME.batch(&batch.envelope(), &mut document);
            forever_frame_opening(&nonce, &mut document);
        }
        let document = String::from_utf8(document).expect("UTF-8");
        // A script without `<` has no markup before its end tag.
        let tag = format!("<script nonce=\"{nonce}\">");
        let mut scripts = document.split(&tag).skip(1);
        let function = scripts.next().expect("the function");
        prop_assert!(function.contains("function receive(text)"));
        for batch in &batches {
            check(scripts.next().expect("a script").as_bytes(), batch.json().as_bytes())?;
        }
        prop_assert_eq!((scripts.next(), scripts.next()), (Some(""), None));
        prop_assert_eq!(document.matches("</script>").count(), 1 + batches.len());
    }
}
