// SPDX-License-Identifier: Apache-2.0
//! CRC-32C by a table: the simulator saves superblocks by the thousand, and bit by bit that is most of its time.

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut crc, mut bit) = (n as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

/// The CRC-32C of some bytes: the value of [`helio_format::slow_crc32c`], sooner.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize];
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_agrees_with_the_slow_twin() {
        let bytes: Vec<u8> = (0..1000u32).map(|n| (n * n % 251) as u8).collect();
        for end in [0, 1, 9, 1000] {
            assert_eq!(super::crc32c(&bytes[..end]), helio_format::slow_crc32c(&bytes[..end]));
        }
    }
}
