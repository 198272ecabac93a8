//! An answer is one of four, follows an offer, and is the same however the header is spaced.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_wire::websocket::deflate_offer;

fuzz_target!(|input: (&str, bool)| {
    let (header, wants_context) = input;
    let answer = deflate_offer(header, wants_context);
    if let Some(answer) = answer {
        assert!(header.contains("permessage-deflate"));
        assert!(wants_context || !answer.has_context);
        let context = match answer.has_context {
            true => "",
            false => " server_no_context_takeover;",
        };
        let always = format!("permessage-deflate;{context} client_no_context_takeover");
        match answer.header.strip_prefix(&always).expect("what we can keep to") {
            "" => {}
            "; server_max_window_bits=15" => assert!(header.contains("server_max_window_bits")),
            other => panic!("{other}"),
        }
        // Later offers are ignored.
        let longer = format!("{header}, permessage-deflate; x");
        assert_eq!(deflate_offer(&longer, wants_context), Some(answer));
        assert_eq!(deflate_offer(&format!("{header},;"), wants_context), None);
    }
    assert_eq!(deflate_offer(&format!(",\t {header} ,"), wants_context), answer);
    assert_eq!(deflate_offer(&format!("x; y=\"z\", {header}"), wants_context), answer);
});
