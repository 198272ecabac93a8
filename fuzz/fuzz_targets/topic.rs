//! A topic is printed as it was read, and has one image in NATS.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_wire::Topic;

fuzz_target!(|text: &str| {
    if let Ok(topic) = text.parse::<Topic>() {
        assert_eq!(topic.to_string(), text);
        let subject = topic.to_nats_subject();
        assert!(subject.split('.').all(|token| !token.is_empty()), "{subject}");
        assert_eq!(Topic::from_nats_subject(&subject), Ok(topic));
    }
    if let Ok(topic) = Topic::from_nats_subject(text) {
        assert_eq!(topic.to_nats_subject(), text);
        assert_eq!(topic.as_str().parse(), Ok(topic));
    }
});
