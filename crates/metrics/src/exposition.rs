//! The Prometheus text format, as the reference's reporter writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Quantiles of a summary.
const QUANTILES: [f64; 6] = [0.5, 0.75, 0.95, 0.98, 0.99, 0.999];

/// Collects values by metric name; samples of one name are written together,
/// as the format demands.
#[derive(Debug, Default)]
pub struct Exposition {
    families: BTreeMap<String, Family>,
}

#[derive(Debug)]
struct Family {
    kind: &'static str,
    lines: String,
}

impl Exposition {
    /// A gauge sample. `name` is without the `fluss_` prefix.
    pub fn gauge(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let name = full_name(name);
        let family = self.family(&name, "gauge");
        write_sample(&mut family.lines, &name, labels, None, value);
    }

    /// A histogram as a summary: the count of observations and the quantiles of
    /// the `sorted` ones that are kept.
    pub fn summary(&mut self, name: &str, labels: &[(&str, &str)], count: u64, sorted: &[f64]) {
        let name = full_name(name);
        let family = self.family(&name, "summary");
        write_sample(
            &mut family.lines,
            &format!("{name}_count"),
            labels,
            None,
            count as f64,
        );
        for quantile in QUANTILES {
            let rank = (quantile * sorted.len() as f64).ceil() as usize;
            let value = sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0);
            write_sample(&mut family.lines, &name, labels, Some(quantile), value);
        }
    }

    fn family(&mut self, name: &str, kind: &'static str) -> &mut Family {
        self.families
            .entry(name.to_owned())
            .or_insert_with(|| Family {
                kind,
                lines: String::new(),
            })
    }

    /// The whole text.
    pub fn finish(self) -> String {
        let mut text = String::new();
        for (name, family) in self.families {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# TYPE {name} {}", family.kind);
            text.push_str(&family.lines);
        }
        text
    }
}

fn full_name(name: &str) -> String {
    let legal = |letter: char| letter.is_ascii_alphanumeric() || letter == ':' || letter == '_';
    let name = name
        .chars()
        .map(|letter| if legal(letter) { letter } else { '_' });
    std::iter::once("fluss_".to_owned())
        .chain(name.map(String::from))
        .collect()
}

fn write_sample(
    out: &mut String,
    name: &str,
    labels: &[(&str, &str)],
    quantile: Option<f64>,
    value: f64,
) {
    out.push_str(name);
    let quantile = quantile.map(|quantile| quantile.to_string());
    let quantile = quantile.as_deref().map(|quantile| ("quantile", quantile));
    let mut separator = '{';
    for (label, text) in labels.iter().copied().chain(quantile) {
        let text = text
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let _ = write!(out, "{separator}{label}=\"{text}\"");
        separator = ',';
    }
    if separator == ',' {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_name_stand_together_under_one_type_line() {
        let mut out = Exposition::default();
        out.gauge("tabletserver_leaderCount", &[("server_id", "0")], 3.0);
        out.gauge("a-b", &[], 0.5);
        out.gauge("tabletserver_leaderCount", &[("server_id", "1")], 4.0);
        assert_eq!(
            out.finish(),
            "# TYPE fluss_a_b gauge\nfluss_a_b 0.5\n\
             # TYPE fluss_tabletserver_leaderCount gauge\n\
             fluss_tabletserver_leaderCount{server_id=\"0\"} 3\n\
             fluss_tabletserver_leaderCount{server_id=\"1\"} 4\n"
        );
    }

    #[test]
    fn a_summary_has_count_and_quantiles_but_no_sum() {
        let mut out = Exposition::default();
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        out.summary("x", &[("request", "a\"b")], 7, &values);
        let text = out.finish();
        assert!(
            text.contains("fluss_x_count{request=\"a\\\"b\"} 7\n"),
            "{text}"
        );
        assert!(
            text.contains("fluss_x{request=\"a\\\"b\",quantile=\"0.99\"} 99\n"),
            "{text}"
        );
        assert!(!text.contains("_sum"));
    }

    #[test]
    fn an_empty_summary_reads_zero() {
        let mut out = Exposition::default();
        out.summary("x", &[], 0, &[]);
        assert!(out.finish().contains("fluss_x{quantile=\"0.5\"} 0\n"));
    }
}
