use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// An address for limits. An IPv4 address counts as a whole. IPv6 addresses count by their /64, because a customer gets
/// at least one /64 (RFC 6177 §2), which has 2^64 addresses.
///
/// Small, because every connection has one: the first half of an IPv6 address, or `::ffff:a.b.c.d` without its leading
/// zeros. As the first half of an IPv6 address this lies in an unassigned range (RFC 4291 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Address(u64);

impl Address {
    /// Returns the counted form of an address in any notation. Both forms of loopback are equal.
    pub(crate) fn from_ip(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if address.is_loopback() => {
                Self::from_ip(Ipv4Addr::LOCALHOST.into())
            }
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64),
            IpAddr::V4(address) => Self(0xffff << 32 | u64::from(address.to_bits())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 >> 32 {
            0xffff => Ipv4Addr::from_bits(self.0 as u32).fmt(f),
            _ => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(self.0) << 64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_is_counted_whole_and_ipv6_by_its_64_bits() {
        let check = |one: &str, other: &str, is_same: bool| {
            let [a, b] = [one, other].map(|text| Address::from_ip(text.parse().unwrap()));
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

    #[test]
    fn the_written_length_is_the_counted_length() {
        for (text, written) in
            [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::/64"), ("::1", "127.0.0.1")]
        {
            assert_eq!(Address::from_ip(text.parse().unwrap()).to_string(), written);
        }
    }
}
