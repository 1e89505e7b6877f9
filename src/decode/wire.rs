//! Big-endian reads from a slice whose length is checked by the read.

/// A cursor over received bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire<'a>(pub(super) &'a [u8]);

impl<'a> Wire<'a> {
    /// The next `length` bytes, or `None` (and nothing consumed) when fewer are left.
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Steps over the next 4 bytes, or fewer at the end, if all of them are zero.
    pub(super) fn skip_zeros(&mut self) -> bool {
        let (next, rest) = self.0.split_at(self.0.len().min(4));
        let is_zero = !next.is_empty() && next.iter().all(|&byte| byte == 0);
        if is_zero {
            self.0 = rest;
        }
        is_zero
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_all_zero(&self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
}

/// IPv4-mapped IPv6 address, RFC 4291 section 2.5.5.2; unspecified stays so.
pub(super) fn map_ipv4(address: [u8; 4]) -> [u8; 16] {
    let [a, b, c, d] = address;
    if address == [0; 4] {
        return [0; 16];
    }
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}
