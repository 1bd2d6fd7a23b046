//! One figure of a report.

use serde_json::{Value, json};

/// What a figure should reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The median is at least this.
    AtLeast(f64),
    /// The median is at most this.
    AtMost(f64),
    /// Every single value is at most this.
    EachAtMost(f64),
}

/// A figure, one value per round.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// Unit of the values, empty for a ratio.
    pub unit: &'static str,
    /// In the order of the rounds.
    pub values: Vec<f64>,
    /// What it should reach.
    pub target: Option<Target>,
}

impl Figure {
    /// A figure without a target.
    pub fn new(name: impl Into<String>, unit: &'static str, values: Vec<f64>) -> Self {
        Self {
            name: name.into(),
            unit,
            values,
            target: None,
        }
    }

    /// Sets the target.
    pub fn with_target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Median of the rounds; of an even number the mean of the middle two.
    pub fn median(&self) -> f64 {
        let sorted = self.sorted();
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[n / 2],
            n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
        }
    }

    /// Least of the rounds.
    pub fn min(&self) -> f64 {
        self.sorted().first().copied().unwrap_or(f64::NAN)
    }

    /// Greatest of the rounds.
    pub fn max(&self) -> f64 {
        self.sorted().last().copied().unwrap_or(f64::NAN)
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Whether the target is reached; `None` without one.
    pub fn is_met(&self) -> Option<bool> {
        Some(match self.target? {
            Target::AtLeast(bound) => self.median() >= bound,
            Target::AtMost(bound) => self.median() <= bound,
            Target::EachAtMost(bound) => self.max() <= bound,
        })
    }

    /// The target as text, empty without one.
    pub fn target_text(&self) -> String {
        match self.target {
            None => String::new(),
            Some(Target::AtLeast(bound)) => format!("≥ {bound}"),
            Some(Target::AtMost(bound)) => format!("≤ {bound}"),
            Some(Target::EachAtMost(bound)) => format!("each ≤ {bound}"),
        }
    }

    /// `yes`, `NO` or nothing.
    pub fn verdict(&self) -> &'static str {
        match self.is_met() {
            None => "",
            Some(true) => "yes",
            Some(false) => "NO",
        }
    }

    /// For comparison with a later run.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "unit": self.unit,
            "median": self.median(),
            "min": self.min(),
            "max": self.max(),
            "values": self.values,
            "target": self.target_text(),
            "met": self.is_met(),
        })
    }
}

/// Three significant digits, and no fewer than the whole number has.
pub fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_value_or_the_mean_of_two() {
        assert_eq!(Figure::new("", "", vec![3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Figure::new("", "", vec![4.0, 1.0, 2.0, 3.0]).median(), 2.5);
    }

    #[test]
    fn targets_look_at_the_median_or_at_each_value() {
        let figure = |target| Figure::new("", "", vec![1.0, 2.0, 9.0]).with_target(target);
        assert_eq!(figure(Target::AtLeast(2.0)).is_met(), Some(true));
        assert_eq!(figure(Target::AtMost(2.0)).is_met(), Some(true));
        assert_eq!(figure(Target::AtMost(1.9)).is_met(), Some(false));
        assert_eq!(figure(Target::EachAtMost(8.0)).is_met(), Some(false));
        assert_eq!(Figure::new("", "", vec![1.0]).is_met(), None);
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts: Vec<String> = [1234.5, 99.94, 1.234, 0.0456, 0.0].map(digits).into();
        assert_eq!(texts, ["1234", "99.9", "1.23", "0.046", "0"]);
    }
}
