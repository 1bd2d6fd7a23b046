//! Vectors of tables.md §4.7 and §9.4, bytes of the Java library, hostile bytes.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Sets and the bytes that RoaringBitmap 1.3.0 for Java wrote of them after adding
/// the values and `runOptimize`. A line is `name`, ranges `first:count:step`
/// separated by commas, bytes in hex. The values were added in ascending order, or,
/// where the name ends so, in that of the ranges.
const OF_JAVA: &str = include_str!("../../../testdata/roaring64.txt");

struct Sample {
    name: &'static str,
    values: BTreeSet<u64>,
    bytes: Vec<u8>,
}

fn samples() -> Vec<Sample> {
    let lines = OF_JAVA.lines().map(|line| {
        let mut fields = line.split(' ');
        let mut field = || fields.next().unwrap();
        let (name, ranges, hex) = (field(), field(), field());
        let values = ranges.split(',').flat_map(|range| {
            let numbers: Vec<u64> = range.split(':').map(|n| n.parse().unwrap()).collect();
            (0..numbers[1]).map(move |i| numbers[0].wrapping_add(i.wrapping_mul(numbers[2])))
        });
        Sample {
            name,
            values: values.collect(),
            bytes: unhex(hex),
        }
    });
    lines.collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The set, made without reading and uniting.
fn of(values: impl IntoIterator<Item = u64>) -> Bitmap64 {
    let values: BTreeSet<u64> = values.into_iter().collect();
    let values: Vec<u64> = values.into_iter().collect();
    let groups = values.chunk_by(|a, b| a >> 16 == b >> 16);
    let containers = groups.map(|group| {
        let mut bytes = vec![2];
        bytes.extend((group.len() as u32).to_le_bytes());
        bytes.extend(group.iter().flat_map(|value| (*value as u16).to_le_bytes()));
        let container = Container::read(&mut Bytes(&bytes)).unwrap();
        (group[0] >> 16, container)
    });
    Bitmap64 {
        containers: containers.collect(),
    }
}

#[track_caller]
fn check_bytes(values: impl IntoIterator<Item = u64>, hex: &str) {
    let set = of(values);
    assert_eq!(set.write(), unhex(hex));
    assert_eq!(Bitmap64::read(&unhex(hex)), Ok(set));
}

#[test]
fn sets_have_the_bytes_of_the_specification() {
    check_bytes([], "00");
    check_bytes(
        [10, 20],
        "01 0100000000000000 | 04 0000 00 000000000000 0000000000000000
         | 01000000 FE 01000000 01 02 02000000 0A00 1400
         | 0100000000000000 00000000 00000000",
    );
    check_bytes(
        0..5,
        "01 0100000000000000 | 04 0000 00 000000000000 0000000000000000
         | 01000000 FE 01000000 01 00 05000000 0100 0000 0400
         | 0100000000000000 00000000 00000000",
    );
    check_bytes(
        [1, 65538],
        "01 0200000000000000 | 00 0200 05 0000000000 00000100
         | 04 0000 00 000000000000 0000000000000000
         | 04 0000 00 000000000001 0100000000000000
         | 01000000 FE 02000000 | 01 02 01000000 0100 | 01 02 01000000 0200
         | 0200000000000000 00000000 01000000",
    );
}

#[test]
fn a_bitmap_with_a_free_slot_is_read() {
    let bytes = unhex(
        "01 0200000000000000 | 00 0200 05 0000000000 00000200
         | 04 0000 00 000000000000 0000000000000000
         | 04 0000 00 000000000002 0200000000000000
         | 01000000 FE 03000000 | 01 02 01000000 0000 | 00 | 01 02 01000000 0000
         | 0200000000000000 00000000 02000000",
    );
    assert_eq!(Bitmap64::read(&bytes), Ok(of([0, 131_072])));
}

#[test]
fn af23_af24_the_union_has_the_bytes_of_the_reference() {
    let ten_and_twenty = of([10, 20]).write();
    let twenty_and_thirty = unhex(
        "01010000000000000004000000000000000000000000000000000001000000FE\
         0100000001020200000014001E0001000000000000000000000000000000",
    );
    let all = unhex(
        "01010000000000000004000000000000000000000000000000000001000000FE\
         010000000102030000000A0014001E0001000000000000000000000000000000",
    );
    assert_eq!(of([20, 30]).write(), twenty_and_thirty);
    assert_eq!(union(&ten_and_twenty, &twenty_and_thirty), Ok(all.clone()));
    assert_eq!(union(&all, &[EMPTY]), Ok(all.clone()));
    assert_eq!(union(&[EMPTY], &all), Ok(all));
    assert_eq!(union(&[EMPTY], &[EMPTY]), Ok(vec![EMPTY]));
}

#[test]
fn sets_of_the_java_library_are_read() {
    assert_eq!(samples().len(), 20);
    for sample in samples() {
        let read = Bitmap64::read(&sample.bytes);
        assert_eq!(read, Ok(of(sample.values)), "{}", sample.name);
    }
}

/// Where Java has free slots behind the last one, we have none; and its slots are
/// in the order in which containers came to be.
#[test]
fn sets_have_the_bytes_of_the_java_library_but_for_free_slots() {
    const TAIL: usize = 16;
    let is_ordered = |sample: &Sample| !sample.name.ends_with("_unordered");
    for sample in samples().into_iter().filter(is_ordered) {
        let set = of(sample.values);
        let prefixes: Vec<_> = set.containers.iter().map(|(prefix, _)| *prefix).collect();
        let mut tree = Vec::new();
        prefix_tree::write(&prefixes, &mut tree);
        let slots_at = 9 + tree.len() + 5;
        let mut expected = sample.bytes;
        let count = u32::from_le_bytes(expected[slots_at..slots_at + 4].try_into().unwrap());
        let free = count as usize - prefixes.len();
        let tail_at = expected.len() - TAIL;
        assert!(
            expected
                .drain(tail_at - free..tail_at)
                .all(|mark| mark == 0)
        );
        let slots = (prefixes.len() as u32).to_le_bytes();
        expected.splice(slots_at..slots_at + 4, slots);
        assert_eq!(set.write(), expected, "{}", sample.name);
    }
}

#[test]
fn every_cut_is_refused() {
    for sample in samples() {
        // A stride keeps the long ones fast; their ends are cut everywhere.
        let end = sample.bytes.len();
        let cuts = (0..end)
            .step_by(1 + end / 500)
            .chain(end.saturating_sub(40)..end);
        for cut in cuts {
            let read = Bitmap64::read(&sample.bytes[..cut]);
            assert!(read.is_err(), "{} cut to {cut} bytes", sample.name);
        }
    }
}

#[track_caller]
fn check_refused(hex: &str) {
    let damaged = unhex(hex);
    let error = union(&damaged, &[EMPTY]).unwrap_err();
    assert!(error.starts_with("damaged 64-bit bitmap: "), "{error}");
}

#[test]
fn trees_that_contradict_themselves_are_refused() {
    const CONTAINERS: &str = "01000000 FE 02000000 01 02 01000000 0100 01 02 01000000 0200
         0200000000000000 00000000 01000000";
    const LEAF_0: &str = "04 0000 00 000000000000 0000000000000000";
    const LEAF_1: &str = "04 0000 00 000000000001 0100000000000000";
    let tree = |count: &str, node: &str, first: &str, second: &str| {
        format!("01 {count} 00000000000000 {node} {first} {second} {CONTAINERS}")
    };
    let good = tree("02", "00 0200 05 0000000000 00000100", LEAF_0, LEAF_1);
    assert_eq!(Bitmap64::read(&unhex(&good)), Ok(of([1, 65538])));

    let node = "00 0200 05 0000000000 00000100";
    check_refused(&tree("03", node, LEAF_0, LEAF_1)); // another number of prefixes
    check_refused(&tree("02", node, LEAF_1, LEAF_0)); // not where their bytes lead
    check_refused(&tree("02", node, LEAF_0, LEAF_0)); // one prefix twice
    let same_slot = "04 0000 00 000000000001 0000000000000000";
    check_refused(&tree("02", node, LEAF_0, same_slot)); // one container twice
    let no_slot = "04 0000 00 000000000001 0200000000000000";
    check_refused(&tree("02", node, LEAF_0, no_slot));
    check_refused(&tree(
        "02",
        "00 0200 06 000000000000 00000100",
        LEAF_0,
        LEAF_1,
    ));
    check_refused(&tree(
        "02",
        "00 0500 05 0000000000 00000100",
        LEAF_0,
        LEAF_1,
    ));
    check_refused(&tree("00", "00 0000 05 0000000000 00000100", "", ""));
    check_refused(&tree(
        "02",
        "05 0200 05 0000000000 00000100",
        LEAF_0,
        LEAF_1,
    ));
    check_refused("02");
}

/// A node with one child takes five bytes and none of the path that it claims to
/// share; the nesting ends with the path.
#[test]
fn nesting_is_bounded() {
    let mut bytes = vec![NOT_EMPTY, 1, 0, 0, 0, 0, 0, 0, 0];
    for _ in 0..100_000 {
        bytes.extend([0, 1, 0, 0, 0, 0, 0, 0]);
    }
    assert!(Bitmap64::read(&bytes).is_err());
}

fn set() -> impl Strategy<Value = BTreeSet<u64>> {
    let cluster = (any::<u64>(), 0_u32..64, 0_u64..400, 0_u32..20);
    prop::collection::vec(cluster, 0..8).prop_map(|clusters| {
        let values = clusters
            .into_iter()
            .flat_map(|(first, zeros, count, step)| {
                (0..count).filter_map(move |i| (first >> zeros).checked_add(i << step))
            });
        values.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sets_come_back(set in set()) {
        let set = of(set);
        prop_assert_eq!(Bitmap64::read(&set.write()), Ok(set));
    }

    #[test]
    fn the_union_is_that_of_the_sets(a in set(), b in set()) {
        let bytes = union(&of(a.iter().copied()).write(), &of(b.iter().copied()).write());
        prop_assert_eq!(bytes, Ok(of(a.union(&b).copied()).write()));
    }

    #[test]
    fn no_bytes_panic(mut bytes: Vec<u8>, set in set(), flips: Vec<(u32, u8)>) {
        let _ = Bitmap64::read(&bytes);
        bytes.insert(0, NOT_EMPTY);
        let _ = Bitmap64::read(&bytes);
        let mut damaged = of(set).write();
        for (at, bits) in flips {
            let at = at as usize % damaged.len();
            damaged[at] ^= bits;
        }
        // What is read all the same is a set, and is written as one.
        if let Ok(read) = Bitmap64::read(&damaged) {
            prop_assert_eq!(Bitmap64::read(&read.write()), Ok(read));
        }
    }
}
