//! Arithmetic on the unscaled integers of decimals.

/// Precision and scale of a DECIMAL column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecimalType {
    /// Digits in all, up to 38.
    pub(super) precision: u8,
    /// Digits behind the point, up to `precision`.
    pub(super) scale: u8,
}

impl DecimalType {
    /// What holds every unscaled integer of a decimal.
    pub(super) const WIDEST: Self = Self {
        precision: 38,
        scale: 0,
    };

    /// The value, if it has no more digits than the precision.
    fn fit(self, unscaled: i128) -> Option<i128> {
        let bound = power_of_ten(self.precision)?;
        (unscaled.unsigned_abs() < bound).then_some(unscaled)
    }
}

/// 10^exponent, for the exponents of precisions and scales.
fn power_of_ten(exponent: u8) -> Option<u128> {
    10_u128.checked_pow(u32::from(exponent))
}

/// The sum of two values of the type; `None` if it does not fit.
pub(super) fn sum(a: i128, b: i128, decimal_type: DecimalType) -> Option<i128> {
    decimal_type.fit(a.checked_add(b)?)
}

/// The product of two values of the type, rounded half up (away from zero) to its
/// scale; `None` if it does not fit.
pub(super) fn product(a: i128, b: i128, decimal_type: DecimalType) -> Option<i128> {
    let divisor = power_of_ten(decimal_type.scale)?;
    let exact = multiply(a.unsigned_abs(), b.unsigned_abs());
    let (quotient, remainder) = divide(exact, divisor)?;
    // `remainder >= divisor - remainder` is `2 * remainder >= divisor`.
    let rounded = match remainder != 0 && remainder >= divisor - remainder {
        true => quotient.checked_add(1)?,
        false => quotient,
    };
    let magnitude = i128::try_from(rounded).ok()?;
    let is_negative = (a < 0) != (b < 0);
    decimal_type.fit(if is_negative { -magnitude } else { magnitude })
}

/// The product of two integers, as its high and its low half.
fn multiply(a: u128, b: u128) -> (u128, u128) {
    const HALF: u32 = 64;
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low) = (a >> HALF, a & LOW);
    let (b_high, b_low) = (b >> HALF, b & LOW);
    let low = a_low * b_low;
    // At most (2^64 − 1)² + 2^64 − 1 < 2^128.
    let middle = a_high * b_low + (low >> HALF);
    let (middle, carried) = middle.overflowing_add(a_low * b_high);
    let carry = u128::from(carried) << HALF;
    let high = a_high * b_high + (middle >> HALF) + carry;
    (high, middle << HALF | low & LOW)
}

/// Quotient and remainder; `None` if the quotient has more than 128 bits.
fn divide((high, low): (u128, u128), divisor: u128) -> Option<(u128, u128)> {
    if high == 0 {
        return Some((low / divisor, low % divisor));
    }
    if high >= divisor {
        return None;
    }
    // Long division, bit by bit. The remainder stays below the divisor, which is
    // below 2^127, so that doubling it does not overflow.
    let (mut quotient, mut remainder) = (0, high);
    for bit in (0..u128::BITS).rev() {
        remainder = remainder << 1 | low >> bit & 1;
        quotient <<= 1;
        if remainder >= divisor {
            remainder -= divisor;
            quotient |= 1;
        }
    }
    Some((quotient, remainder))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn decimal(precision: u8, scale: u8) -> DecimalType {
        DecimalType { precision, scale }
    }

    /// The largest value of 38 digits.
    const MOST: i128 = 10_i128.pow(38) - 1;

    #[test]
    fn a_sum_that_does_not_fit_is_none() {
        assert_eq!(sum(999, -1, decimal(3, 2)), Some(998));
        assert_eq!(sum(999, 1, decimal(3, 2)), None);
        assert_eq!(sum(-999, -1, decimal(3, 0)), None);
        assert_eq!(sum(MOST, 1, decimal(38, 0)), None);
        assert_eq!(sum(MOST, MOST, decimal(38, 0)), None);
        assert_eq!(sum(-MOST, MOST, decimal(38, 38)), Some(0));
    }

    #[test]
    fn a_product_is_rounded_half_up() {
        assert_eq!(product(250, 400, decimal(10, 2)), Some(1000));
        assert_eq!(product(5, 10, decimal(5, 2)), Some(1)); // 0.05 · 0.10 = 0.0050
        assert_eq!(product(7, 7, decimal(5, 2)), Some(0)); // 0.0049
        assert_eq!(product(-5, 10, decimal(5, 2)), Some(-1));
        assert_eq!(product(-5, -30, decimal(5, 2)), Some(2)); // 0.0150
        assert_eq!(product(0, -30, decimal(5, 2)), Some(0));
        assert_eq!(product(3, 3, decimal(5, 0)), Some(9));
    }

    #[test]
    fn a_product_beyond_128_bits_is_exact() {
        let one = 10_i128.pow(37); // 1.000…, with 37 digits behind the point
        assert_eq!(product(one, one, decimal(38, 37)), Some(one));
        assert_eq!(product(MOST, one, decimal(38, 37)), Some(MOST));
        assert_eq!(product(-MOST, one, decimal(38, 37)), Some(-MOST));
        // 0.999…9² = 1 − 2·10⁻³⁸ + 10⁻⁷⁶, rounded to 38 digits.
        assert_eq!(product(MOST, MOST, decimal(38, 38)), Some(MOST - 1));
        assert_eq!(product(MOST, MOST, decimal(38, 0)), None);
        assert_eq!(product(MOST, 2, decimal(38, 0)), None);
        assert_eq!(product(i128::MIN, i128::MIN, decimal(38, 0)), None);
    }

    #[test]
    fn rounding_may_need_a_digit_too_many() {
        // 9.99 · 1.01 = 10.0899; 9.99 · 1.0 = 9.99; 0.95 · 10.5 = 9.975.
        assert_eq!(product(999, 101, decimal(3, 2)), None);
        assert_eq!(product(95, 1050, decimal(4, 2)), Some(998));
        assert_eq!(product(995, 1, decimal(2, 2)), Some(10));
        assert_eq!(product(995, 1, decimal(1, 2)), None);
    }

    proptest! {
        #[test]
        fn multiplication_and_division_undo_each_other(
            a: u128, shift in 0_u32..128, divisor in 1_u128..10_u128.pow(38), part: u128,
        ) {
            let (a, remainder) = (a >> shift, part % divisor);
            let (high, low) = multiply(a, divisor);
            let (low, carried) = low.overflowing_add(remainder);
            let high = high + u128::from(carried);
            prop_assert_eq!(divide((high, low), divisor), Some((a, remainder)));
        }

        #[test]
        fn small_products_are_those_of_plain_integers(a: i64, b: i64, scale in 0_u8..=18) {
            let exact = i128::from(a) * i128::from(b);
            let divisor = 10_i128.pow(u32::from(scale));
            let half_up = (exact.abs() + divisor / 2) / divisor * exact.signum();
            prop_assert_eq!(product(a.into(), b.into(), decimal(38, scale)), Some(half_up));
        }
    }
}
