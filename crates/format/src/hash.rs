//! The 32-bit hashes behind bucket numbers (formats.md §4.9). All arithmetic
//! wraps.

const C1: u32 = 0xcc9e_2d51;
const C2: u32 = 0x1b87_3593;
const F_HASH_SEED: u32 = 42;

fn mix_k(k: u32) -> u32 {
    k.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2)
}

fn mix_h(h: u32, k: u32) -> u32 {
    (h ^ k)
        .rotate_left(13)
        .wrapping_mul(5)
        .wrapping_add(0xe654_6b64)
}

fn finish(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The hash of bucket keys without a lake and with Paimon.
///
/// Not standard Murmur3: each byte after the last full word is mixed on its
/// own, sign-extended as Java does. (The official Rust client 1.0.0 extends
/// with zeros and so finds other buckets for some keys; Java's are the ones
/// that the lake and all tests agree on.)
pub fn f_hash(bytes: &[u8]) -> i32 {
    let words = bytes.chunks_exact(4);
    let tail = words.remainder();
    let h = words.fold(F_HASH_SEED, |h, bytes| mix_h(h, mix_k(word(bytes))));
    let h = tail
        .iter()
        .fold(h, |h, &byte| mix_h(h, mix_k(i32::from(byte as i8) as u32)));
    finish(h ^ bytes.len() as u32) as i32
}

/// Scrambles a 32-bit number to a non-negative one; `i32::MIN` becomes 0.
pub fn murmur_int(code: i32) -> i32 {
    let h = mix_h(0, mix_k(code as u32));
    let h = finish(h ^ 4) as i32;
    h.checked_abs().unwrap_or(0)
}

/// Murmur3 x86 32-bit with seed 0, as Iceberg uses it.
pub fn murmur3_32(bytes: &[u8]) -> i32 {
    let words = bytes.chunks_exact(4);
    let tail = words.remainder();
    let mut h = words.fold(0, |h, bytes| mix_h(h, mix_k(word(bytes))));
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        h ^= mix_k(u32::from_le_bytes(last));
    }
    finish(h ^ bytes.len() as u32) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOX: &[u8] = b"The quick brown fox jumps over the lazy dog";

    #[test]
    fn f_hash_gives_the_reference_values() {
        assert_eq!(f_hash(b"") as u32, 0x087f_cd5c);
        assert_eq!(f_hash(FOX) as u32, 0x1bc6_f880);
    }

    #[test]
    fn f_hash_extends_the_sign_of_tail_bytes() {
        assert_eq!(f_hash(&[0xc8, 0x01]) as u32, 0x56aa_b02c);
        assert_eq!(f_hash("é".as_bytes()) as u32, 0x7e4f_00f6);
        assert_eq!(f_hash(&[0xff, 0x01]) as u32, 0x0da2_bcd7);
        assert_eq!(f_hash(&[0x80]) as u32, 0x2e3e_8f7b);
    }

    #[test]
    fn murmur_int_gives_the_reference_values() {
        assert_eq!(murmur_int(0), 0x2362_f9de);
        assert_eq!(murmur_int(42), 0x43a4_6e1d);
        assert_eq!(murmur_int(-77), 0x2eeb_27de);
    }

    #[test]
    fn murmur3_gives_the_published_values() {
        assert_eq!(murmur3_32(FOX), 0x2e4f_f723);
        assert_eq!(murmur3_32(&34_i64.to_le_bytes()), 2_017_239_379);
        assert_eq!(murmur3_32(b"iceberg"), 1_210_000_089);
        assert_eq!(murmur3_32(&1420_i16.to_be_bytes()), -500_754_589);
        assert_eq!(murmur3_32(&17_486_i64.to_le_bytes()), -653_330_422);
        assert_eq!(murmur3_32(&[0, 1, 2, 3]), -188_683_207);
    }
}
