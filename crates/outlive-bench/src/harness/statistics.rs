//! Medians, and ratios taken round by round.

/// Returns the middle of some figures; the mean of the two middle ones when they are even in
/// number.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Median and range of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Summarises figures; returns `None` when there are none.
    pub fn of(figures: &[f64]) -> Option<Self> {
        Some(Self {
            median: median(figures)?,
            min: figures.iter().copied().fold(f64::INFINITY, f64::min),
            max: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// Returns the median of the rounds' ratios: each round's figure is divided by the baseline's of
/// the *same* round, so what slows a whole round down (a neighbour, a warm processor) cancels out.
/// Rounds that lack either are left out.
pub fn paired_ratio(figures: &[Option<f64>], baseline: &[Option<f64>]) -> Option<f64> {
    let ratios: Vec<f64> = figures
        .iter()
        .zip(baseline)
        .filter_map(|(figure, base)| Some((*figure)? / (*base)?))
        .collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn a_summary_holds_the_range() {
        assert_eq!(
            Summary::of(&[2.0, 8.0, 4.0]),
            Some(Summary { median: 4.0, min: 2.0, max: 8.0 })
        );
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratios_are_paired_by_round() {
        // The second round ran on a machine three times as slow: the ratio of medians would say 1,
        // the truth is 2.
        let figures = [Some(2.0), Some(6.0), Some(2.0)];
        let baseline = [Some(1.0), Some(3.0), Some(1.0)];
        assert_eq!(paired_ratio(&figures, &baseline), Some(2.0));
    }

    #[test]
    fn rounds_without_a_partner_do_not_count() {
        let figures = [Some(2.0), None, Some(50.0), Some(4.0)];
        let baseline = [Some(1.0), Some(1.0), None, Some(1.0)];
        assert_eq!(paired_ratio(&figures, &baseline), Some(3.0));
        assert_eq!(paired_ratio(&[Some(1.0), None], &[None, Some(1.0)]), None);
    }
}
