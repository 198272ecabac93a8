//! Addresses to listen on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Parses an address and a port. `:8080` is the port on every IPv4 address, `localhost:8080` that of the loopback address. Other
/// names are not resolved, because a name may have several addresses. The error is one sentence with the remedy.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let short = |(host, port): (&str, &str)| {
        let ip = match host {
            "" => Ipv4Addr::UNSPECIFIED,
            "localhost" => Ipv4Addr::LOCALHOST,
            _ => return None,
        };
        Some(SocketAddr::new(IpAddr::V4(ip), port.parse().ok()?))
    };
    let address = text.parse().ok().or_else(|| text.rsplit_once(':').and_then(short));
    address.ok_or_else(|| {
        format!(
            "{text:?} is not an address with a port: write it as 127.0.0.1:8080, localhost:8080 or :8080"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::parse_address;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let check = |text: &str, expected: &str| {
            assert_eq!(parse_address(text).unwrap().to_string(), expected, "{text}");
        };
        check("127.0.0.1:8080", "127.0.0.1:8080");
        check("[::1]:0", "[::1]:0");
        check(":8080", "0.0.0.0:8080");
        check("localhost:8080", "127.0.0.1:8080");
    }

    #[test]
    fn malformed_addresses_are_refused_with_the_remedy() {
        for text in
            ["", ":", "8080", "localhost", "localhost:", ":65536", "host.example:80", "::1:80x"]
        {
            assert!(parse_address(text).unwrap_err().contains("write it as"), "{text}");
        }
    }
}
