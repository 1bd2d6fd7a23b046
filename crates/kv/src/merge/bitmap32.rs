//! Sets of 32-bit integers in the portable Roaring format (tables.md §4.7).

use roaring::RoaringBitmap;

/// The union of two sets, with runs where they are shorter. An error says what is
/// wrong with the bytes.
pub(super) fn union(a: &[u8], b: &[u8]) -> Result<Vec<u8>, String> {
    let mut union = read(a)?;
    union |= read(b)?;
    union.optimize();
    let mut bytes = Vec::with_capacity(union.serialized_size());
    let written = union.serialize_into(&mut bytes);
    written.map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn read(bytes: &[u8]) -> Result<RoaringBitmap, String> {
    let read = RoaringBitmap::deserialize_from(bytes);
    let mut bitmap = read.map_err(|error| format!("damaged 32-bit bitmap: {error}"))?;
    // Uniting with a run container takes time by the number of its runs for each
    // value. Only now is that number bounded (by 2,047).
    bitmap.optimize();
    Ok(bitmap)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn of(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
        let mut bitmap: RoaringBitmap = values.into_iter().collect();
        bitmap.optimize();
        let mut bytes = Vec::new();
        bitmap.serialize_into(&mut bytes).unwrap();
        bytes
    }

    #[rustfmt::skip]
    const ONE_TO_THREE: &[u8] = &[
        0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0x10, 0, 0, 0, 1, 0, 2, 0, 3, 0,
    ];
    #[rustfmt::skip]
    const ONE_TO_FOUR: &[u8] = &[
        0x3b, 0x30, 0, 0, 1, 0, 0, 3, 0, 1, 0, 1, 0, 3, 0,
    ];

    #[test]
    fn af22_the_union_has_the_bytes_of_the_reference() {
        #[rustfmt::skip]
        let one_and_two = [
            0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0x10, 0, 0, 0, 1, 0, 2, 0,
        ];
        assert_eq!(of([1, 2]), one_and_two);
        assert_eq!(union(&one_and_two, &of([2, 3])).unwrap(), ONE_TO_THREE);
    }

    #[test]
    fn a_run_is_used_where_it_is_shorter() {
        assert_eq!(union(ONE_TO_THREE, &of([4])).unwrap(), ONE_TO_FOUR);
        assert_eq!(union(ONE_TO_FOUR, ONE_TO_THREE).unwrap(), ONE_TO_FOUR);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        assert!(union(b"", ONE_TO_THREE).is_err());
        for cut in 0..ONE_TO_FOUR.len() {
            assert!(union(ONE_TO_THREE, &ONE_TO_FOUR[..cut]).is_err());
        }
        // The last run ends beyond 65,535.
        let mut beyond = ONE_TO_FOUR.to_vec();
        beyond.splice(11.., [0xfe, 0xff, 3, 0]);
        assert!(union(&beyond, ONE_TO_THREE).is_err());
        let mut descending = ONE_TO_THREE.to_vec();
        descending[18] = 1;
        assert!(union(&descending, ONE_TO_THREE).is_err());
    }

    fn set() -> impl Strategy<Value = BTreeSet<u32>> {
        let clusters = prop::collection::vec((0_u32..4 << 16, 0_u32..6_000, 1_u32..3), 0..6);
        clusters.prop_map(|clusters| {
            let values = clusters
                .into_iter()
                .flat_map(|(first, count, step)| (0..count).map(move |i| first + i * step));
            values.collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_union_is_that_of_the_sets(a in set(), b in set()) {
            let bytes = union(&of(a.iter().copied()), &of(b.iter().copied())).unwrap();
            let read = RoaringBitmap::deserialize_from(&bytes[..]).unwrap();
            prop_assert!(read.iter().eq(a.union(&b).copied()));
        }

        #[test]
        fn no_bytes_panic(cookie in 0_usize..3, mut bytes: Vec<u8>, flip: (u16, u8)) {
            match cookie {
                0 => bytes.splice(0..0, [0x3a, 0x30, 0, 0]).for_each(drop),
                1 => bytes.splice(0..0, [0x3b, 0x30, 1, 0]).for_each(drop),
                _ => {
                    bytes = of([1, 2, 3, 4, 70_000, 70_002].into_iter().chain(200_000..210_000));
                    let at = usize::from(flip.0) % bytes.len();
                    bytes[at] ^= flip.1;
                }
            }
            let _ = union(&bytes, ONE_TO_FOUR);
            let _ = union(&bytes, &bytes);
        }
    }
}
