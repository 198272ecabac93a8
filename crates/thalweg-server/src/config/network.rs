use std::{
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// `ADDRESS[/PREFIX]`: one address, or all that begin with the same bits (RFC 4632 §3.1, RFC 4291 §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// An IPv4 address in its IPv6-mapped form.
    bits: u128,
    mask: u128,
}

impl Network {
    /// Returns whether an address, in any form, is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        mapped(address).to_bits() & self.mask == self.bits
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an address: write it as 10.0.0.1 or 10.0.0.0/8");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let length = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(length), str::parse::<u32>).map_err(|_| wrong())?;
        if prefix > length {
            return Err(format!(
                "the prefix length of {text:?} is too large: write at most /{length}"
            ));
        }
        // For a prefix of 0, shifting by all 128 bits would overflow.
        let mask = u128::MAX.checked_shl(length - prefix).unwrap_or(0);
        Ok(Self { bits: mapped(address).to_bits() & mask, mask })
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_the_addresses_with_its_prefix() {
        let check = |network: &str, address: &str, expected: bool| {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{address}");
        };
        check("10.1.2.3", "10.1.2.3", true);
        check("10.1.2.3", "::ffff:10.1.2.3", true);
        check("10.1.2.3", "10.1.2.4", false);
        check("10.1.2.3/8", "10.200.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("192.0.2.128/25", "192.0.2.127", false);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("::/0", "8.8.8.8", true);
        check("2001:db8::/32", "2001:db8:ffff::1", true);
        check("2001:db8::/32", "2001:db9::1", false);
        check("::1", "::1", true);
        check("::ffff:10.0.0.0/104", "10.9.9.9", true);
    }

    #[test]
    fn malformed_networks_are_refused() {
        for wrong in ["", "proxy", "10.0.0.1/33", "::/129", "10.0.0.1/", "10.0.0.1/-1", "10.0.0"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
