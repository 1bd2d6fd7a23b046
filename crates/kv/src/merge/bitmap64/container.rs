//! Sets of 16-bit integers.

use super::Result;
use super::bytes::Bytes;

/// 64-bit words of a bitmap of all 65,536 values.
const WORDS: usize = 1024;
const BITMAP_BYTES: usize = WORDS * 8;
/// Most values of an array: it then takes as many bytes as a bitmap.
const ARRAY_VALUES: usize = 4096;

const RUN: u8 = 0;
const BITMAP: u8 = 1;
const ARRAY: u8 = 2;

/// A set.
///
/// **Invariant.** The form is the one that takes the fewest bytes; of forms that
/// take as many, the array before the run before the bitmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Container {
    /// Values, ascending.
    Array(Vec<u16>),
    /// Runs, ascending, with a gap between each two.
    Runs(Vec<Run>),
    /// Bit `v % 64` of word `v / 64` says whether `v` is there.
    Bitmap(Box<Words>),
}

type Words = [u64; WORDS];

/// Consecutive values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    first: u16,
    last: u16,
}

impl Run {
    fn len(self) -> usize {
        usize::from(self.last - self.first) + 1
    }
}

/// Bytes of the payload of so many runs.
const fn run_bytes(runs: usize) -> usize {
    2 + 4 * runs
}

/// Bytes of the shorter of the forms that are not runs.
const fn plain_bytes(values: usize) -> usize {
    if values <= ARRAY_VALUES {
        2 * values
    } else {
        BITMAP_BYTES
    }
}

impl Container {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Array(values) => values.is_empty(),
            Self::Runs(runs) => runs.is_empty(),
            Self::Bitmap(_) => false,
        }
    }

    /// Number of values.
    fn len(&self) -> usize {
        match self {
            Self::Array(values) => values.len(),
            Self::Runs(runs) => runs.iter().map(|run| run.len()).sum(),
            Self::Bitmap(words) => count(words),
        }
    }

    /// A set of values, in ascending order.
    fn of_values(values: Vec<u16>) -> Self {
        let breaks = values.windows(2).filter(|pair| pair[1] - pair[0] > 1);
        let runs = breaks.count() + usize::from(!values.is_empty());
        if values.len() <= ARRAY_VALUES && 2 * values.len() <= run_bytes(runs) {
            return Self::Array(values);
        }
        let mut merged = RunList::with_capacity(runs);
        for value in values {
            merged.push(Run {
                first: value,
                last: value,
            });
        }
        Self::of_runs(merged)
    }

    fn of_runs(runs: RunList) -> Self {
        let runs = runs.0;
        let values = runs.iter().map(|run| run.len()).sum();
        if run_bytes(runs.len()) < plain_bytes(values) {
            return Self::Runs(runs);
        }
        if values <= ARRAY_VALUES {
            let values = runs.iter().flat_map(|run| run.first..=run.last);
            return Self::Array(values.collect());
        }
        let mut words = Box::new([0; WORDS]);
        runs.iter().for_each(|run| set(&mut words, *run));
        Self::Bitmap(words)
    }

    fn of_words(words: Box<Words>) -> Self {
        let runs = count_runs(&words);
        let values = count(&words);
        if values > ARRAY_VALUES && run_bytes(runs) >= BITMAP_BYTES {
            return Self::Bitmap(words);
        }
        let mut list = RunList::with_capacity(runs);
        let mut at = 0;
        while let Some(first) = find(&words, at, true) {
            at = find(&words, first, false).unwrap_or(1 << 16);
            // Both are below 2^16.
            list.push(Run {
                first: first as u16,
                last: (at - 1) as u16,
            });
        }
        Self::of_runs(list)
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Bitmap(words), other) | (other, Self::Bitmap(words)) => {
                let mut words = words.clone();
                other.add_to(&mut words);
                Self::of_words(words)
            }
            _ => {
                let (mut left, mut right) = (self.runs().peekable(), other.runs().peekable());
                let mut merged = RunList::with_capacity(0);
                loop {
                    let from_left = match (left.peek(), right.peek()) {
                        (Some(a), Some(b)) => a.first <= b.first,
                        (a, _) => a.is_some(),
                    };
                    match if from_left { left.next() } else { right.next() } {
                        Some(run) => merged.push(run),
                        None => return Self::of_runs(merged),
                    }
                }
            }
        }
    }

    /// Runs in ascending order, not all as long as could be. A bitmap gives none:
    /// it has another way.
    fn runs(&self) -> impl Iterator<Item = Run> {
        let (values, runs): (&[u16], &[Run]) = match self {
            Self::Array(values) => (values, &[]),
            Self::Runs(runs) => (&[], runs),
            Self::Bitmap(_) => (&[], &[]),
        };
        let single = values.iter().map(|&value| Run {
            first: value,
            last: value,
        });
        single.chain(runs.iter().copied())
    }

    fn add_to(&self, words: &mut Words) {
        match self {
            Self::Bitmap(others) => {
                for (word, other) in words.iter_mut().zip(others.iter()) {
                    *word |= other;
                }
            }
            _ => self.runs().for_each(|run| set(words, run)),
        }
    }

    /// Reads `u8` kind, `u32` number of values, payload.
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Result<Self> {
        let kind = bytes.u8()?;
        let claimed = bytes.u32()? as usize;
        let container = match kind {
            RUN => Self::read_runs(bytes)?,
            BITMAP => {
                let mut words = Box::new([0; WORDS]);
                for word in words.iter_mut() {
                    *word = bytes.u64()?;
                }
                Self::of_words(words)
            }
            ARRAY if claimed <= 1 << 16 => {
                let values: Vec<u16> = bytes.u16s(claimed)?.collect();
                if !values.is_sorted_by(|a, b| a < b) {
                    return Err("values of an array do not ascend".to_owned());
                }
                Self::of_values(values)
            }
            ARRAY => return Err(format!("an array of {claimed} values")),
            _ => return Err(format!("a container of kind {kind}")),
        };
        if container.len() != claimed {
            return Err(format!("{} values instead of {claimed}", container.len()));
        }
        Ok(container)
    }

    fn read_runs(bytes: &mut Bytes<'_>) -> Result<Self> {
        let count = usize::from(bytes.u16()?);
        let mut numbers = bytes.u16s(2 * count)?;
        let mut runs = RunList::with_capacity(count);
        while let (Some(first), Some(more)) = (numbers.next(), numbers.next()) {
            let last = first.checked_add(more).ok_or("a run ends beyond 65,535")?;
            if runs.last().is_some_and(|before| before >= first) {
                return Err("runs do not ascend".to_owned());
            }
            runs.push(Run { first, last });
        }
        Ok(Self::of_runs(runs))
    }

    /// Writes what [`read`](Self::read) reads.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Array(_) => ARRAY,
            Self::Runs(_) => RUN,
            Self::Bitmap(_) => BITMAP,
        });
        // At most 65,536.
        out.extend_from_slice(&(self.len() as u32).to_le_bytes());
        match self {
            Self::Array(values) => out.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            Self::Bitmap(words) => out.extend(words.iter().flat_map(|w| w.to_le_bytes())),
            Self::Runs(runs) => {
                // Fewer than 2,048, or they would not be the shortest form.
                out.extend_from_slice(&(runs.len() as u16).to_le_bytes());
                for run in runs {
                    out.extend_from_slice(&run.first.to_le_bytes());
                    out.extend_from_slice(&(run.last - run.first).to_le_bytes());
                }
            }
        }
    }
}

/// Runs in the making.
struct RunList(Vec<Run>);

impl RunList {
    fn with_capacity(runs: usize) -> Self {
        Self(Vec::with_capacity(runs))
    }

    fn last(&self) -> Option<u16> {
        self.0.last().map(|run| run.last)
    }

    /// Adds a run that begins no earlier than the one before; they become one
    /// where there is no gap.
    fn push(&mut self, run: Run) {
        match self.0.last_mut() {
            Some(before) if run.first <= before.last.saturating_add(1) => {
                before.last = before.last.max(run.last);
            }
            _ => self.0.push(run),
        }
    }
}

fn count(words: &Words) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// Number of runs: of bits that are set while the one before is not.
fn count_runs(words: &Words) -> usize {
    let mut before = 0;
    let mut runs = 0;
    for &word in words {
        runs += (word & !(word << 1 | before >> 63)).count_ones() as usize;
        before = word;
    }
    runs
}

/// Position of the next bit that is so, from `at` on.
fn find(words: &Words, at: usize, is_set: bool) -> Option<usize> {
    let flip = if is_set { 0 } else { u64::MAX };
    let mut mask = u64::MAX << (at % 64);
    for (index, word) in words.iter().enumerate().skip(at / 64) {
        let found = (word ^ flip) & mask;
        if found != 0 {
            return Some(index * 64 + found.trailing_zeros() as usize);
        }
        mask = u64::MAX;
    }
    None
}

/// Sets the bits of a run.
fn set(words: &mut Words, run: Run) {
    let (first, last) = (usize::from(run.first), usize::from(run.last));
    let (low, high) = (first / 64, last / 64);
    let from_first = u64::MAX << (first % 64);
    let to_last = u64::MAX >> (63 - last % 64);
    if low == high {
        words[low] |= from_first & to_last;
        return;
    }
    words[low] |= from_first;
    words[low + 1..high].fill(u64::MAX);
    words[high] |= to_last;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn of(values: impl IntoIterator<Item = u16>) -> Container {
        let set: BTreeSet<u16> = values.into_iter().collect();
        Container::of_values(set.into_iter().collect())
    }

    fn values(container: &Container) -> Vec<u16> {
        let mut words = Box::new([0; WORDS]);
        container.add_to(&mut words);
        let is_there = |value: &u16| words[usize::from(value / 64)] >> (value % 64) & 1 == 1;
        (0..=u16::MAX).filter(is_there).collect()
    }

    fn kind(container: &Container) -> u8 {
        let mut out = Vec::new();
        container.write(&mut out);
        out[0]
    }

    #[test]
    fn the_shortest_form_is_chosen() {
        assert_eq!(kind(&of(1..=3)), ARRAY);
        assert_eq!(kind(&of(1..=4)), RUN);
        assert_eq!(kind(&of((0..4096).map(|v| v * 2))), ARRAY);
        assert_eq!(kind(&of((0..4097).map(|v| v * 2))), BITMAP);
        assert_eq!(kind(&of(0..=u16::MAX)), RUN);
        // 2,047 runs take 8,190 bytes, one more makes it more than a bitmap.
        let threes = |runs: u16| (0..runs).flat_map(|run| run * 4..run * 4 + 3);
        assert_eq!(kind(&of(threes(2047))), RUN);
        assert_eq!(kind(&of(threes(2048))), BITMAP);
        assert_eq!(of([]).len(), 0);
        assert!(of([]).is_empty());
    }

    #[test]
    fn bitmaps_become_shorter_forms_when_a_union_fills_their_gaps() {
        let even = of((0..=u16::MAX).filter(|value| value % 2 == 0));
        let odd = of((0..=u16::MAX).filter(|value| value % 2 == 1));
        assert_eq!(even.union(&odd), of(0..=u16::MAX));
        assert_eq!(kind(&even.union(&odd)), RUN);
    }

    #[track_caller]
    fn check_refused(bytes: &[u8]) {
        assert!(Container::read(&mut Bytes(bytes)).is_err());
    }

    #[test]
    fn damaged_containers_are_refused() {
        check_refused(&[]);
        check_refused(&[ARRAY, 2, 0, 0, 0, 5, 0]);
        check_refused(&[ARRAY, 2, 0, 0, 0, 5, 0, 5, 0]);
        check_refused(&[ARRAY, 2, 0, 0, 0, 5, 0, 4, 0]);
        check_refused(&[ARRAY, 0xff, 0xff, 0xff, 0xff, 5, 0]);
        check_refused(&[RUN, 2, 0, 0, 0, 1, 0, 0xff, 0xff, 1, 0]);
        check_refused(&[RUN, 3, 0, 0, 0, 2, 0, 4, 0, 1, 0, 5, 0, 0, 0]);
        check_refused(&[RUN, 3, 0, 0, 0, 1, 0, 4, 0, 1, 0]);
        check_refused(&[3, 1, 0, 0, 0, 5, 0]);
        let mut bitmap = vec![BITMAP, 1, 0, 0, 0];
        bitmap.resize(5 + BITMAP_BYTES, 0);
        check_refused(&bitmap);
        check_refused(&bitmap[..100]);
    }

    #[test]
    fn any_form_is_read_and_becomes_the_shortest() {
        let run = [RUN, 3, 0, 0, 0, 2, 0, 4, 0, 1, 0, 6, 0, 0, 0];
        assert_eq!(Container::read(&mut Bytes(&run)), Ok(of(4..=6)));
        let mut bitmap = vec![BITMAP, 2, 0, 0, 0];
        bitmap.resize(5 + BITMAP_BYTES, 0);
        bitmap[5] = 0x80;
        bitmap[6] = 0x01;
        assert_eq!(Container::read(&mut Bytes(&bitmap)), Ok(of([7, 8])));
    }

    fn set() -> impl Strategy<Value = BTreeSet<u16>> {
        let clusters = prop::collection::vec((any::<u16>(), 0_u16..9_000, 1_u16..4), 0..6);
        clusters.prop_map(|clusters| {
            let values = clusters.into_iter().flat_map(|(first, count, step)| {
                (0..count).filter_map(move |i| first.checked_add(i.checked_mul(step)?))
            });
            values.collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_union_is_that_of_the_sets(a in set(), b in set()) {
            let union = of(a.iter().copied()).union(&of(b.iter().copied()));
            prop_assert_eq!(&union, &of(a.union(&b).copied()));
            prop_assert!(values(&union).iter().eq(a.union(&b)));
            prop_assert_eq!(union.len(), a.union(&b).count());
        }

        #[test]
        fn containers_come_back(set in set()) {
            let container = of(set);
            let mut bytes = Vec::new();
            container.write(&mut bytes);
            let mut bytes = Bytes(&bytes);
            prop_assert_eq!(Container::read(&mut bytes), Ok(container));
            prop_assert!(bytes.0.is_empty());
        }
    }
}
