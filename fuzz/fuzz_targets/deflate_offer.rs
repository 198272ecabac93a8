//! An answer is one of two, follows an offer, and is the same however the header is spaced.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_wire::websocket::deflate_offer;

const ANSWER: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

fuzz_target!(|header: &str| {
    let answer = deflate_offer(header);
    if let Some(answer) = answer {
        assert!(header.contains("permessage-deflate"));
        let window = answer.strip_prefix(ANSWER).expect("what we can keep to");
        match window {
            "" => {}
            "; server_max_window_bits=15" => assert!(header.contains("server_max_window_bits")),
            other => panic!("{other}"),
        }
        // Later offers are ignored.
        assert_eq!(deflate_offer(&format!("{header}, permessage-deflate; x")), Some(answer));
        assert_eq!(deflate_offer(&format!("{header},;")), None);
    }
    assert_eq!(deflate_offer(&format!(",\t {header} ,")), answer);
    assert_eq!(deflate_offer(&format!("x; y=\"z\", {header}")), answer);
});
