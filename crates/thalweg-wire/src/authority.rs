//! The authority of a URL: a host, and a port where it is not the default one (RFC 3986 §3.2).

/// Returns the port of an authority, or the default of its scheme; `None` if it is not a number from 1 to 65535.
pub fn port(authority: &str, is_tls: bool) -> Option<u16> {
    // The colons of an IPv6 address are within its brackets.
    match authority.rsplit_once(':').filter(|_| !authority.ends_with(']')) {
        None => Some(if is_tls { 443 } else { 80 }),
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().ok().filter(|port| *port != 0)
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::port;

    #[test]
    fn a_port_is_a_number_or_that_of_the_scheme() {
        assert_eq!((port("h", false), port("h", true)), (Some(80), Some(443)));
        assert_eq!((port("[::1]", false), port("[::1]:8080", true)), (Some(80), Some(8080)));
        for wrong in ["h:", "h:0", "h:65536", "h:80x", "h:+80", "[::1]:"] {
            assert_eq!(port(wrong, false), None, "{wrong}");
        }
    }
}
