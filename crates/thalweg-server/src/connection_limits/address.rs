use std::net::{IpAddr, Ipv4Addr};

/// An address as it is counted. An IPv4 address counts as a whole. Of an IPv6 address only the
/// /64 counts: one line gets at least that (RFC 6177 §2), and with it 2^64 addresses.
///
/// Small, because every connection has one: the first half of an address of IPv6, or
/// `::ffff:a.b.c.d` without the zeros before it. As the first half of an IPv6 address this
/// would lie in a range that nobody is given (RFC 4291 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Address(u64);

impl Address {
    /// How an address is counted, in whatever form it is written. Both forms of loopback count
    /// as one.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if address.is_loopback() => Self::of(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64),
            IpAddr::V4(address) => Self(0xffff << 32 | u64::from(address.to_bits())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_is_counted_whole_and_ipv6_by_its_64_bits() {
        let check = |one: &str, other: &str, is_same: bool| {
            let [a, b] = [one, other].map(|text| Address::of(text.parse().unwrap()));
            assert_eq!(a == b, is_same, "{one} and {other}");
        };
        check("2001:db8::1", "2001:db8::ffff:1:2:3", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("::1", "127.0.0.1", true);
        check("0.0.0.1", "::1", false);
        check("0.0.0.0", "::", false);
    }
}
