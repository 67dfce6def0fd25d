//! Round numbers for axes. Pure.

/// Steps between times that people count in, in seconds.
const TIME_STEPS: [f64; 21] = [
    0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0,
    7200.0, 10800.0, 21600.0, 43200.0, 86400.0, 604_800.0,
];

/// More marks than this crowd an axis.
const TICKS_MAX: f64 = 6.0;

/// Times from 0 to the end at even, round distances.
pub(crate) fn times(end: f64) -> Vec<f64> {
    let fits = |step: &&f64| end / **step <= TICKS_MAX;
    let longest = TIME_STEPS[TIME_STEPS.len() - 1];
    let step = TIME_STEPS.iter().find(fits).copied();
    // What is longer than weeks is cut into equal parts.
    let step = step.unwrap_or_else(|| longest * (end / longest / TICKS_MAX).ceil());
    let count = (end / step + 1e-9) as u32;
    (0..=count).map(|tick| f64::from(tick) * step).collect()
}

/// Numbers of pods from a step on, up to the highest, at even, round distances.
pub(crate) fn counts(most: i32) -> Vec<i32> {
    let mut step = 1;
    let mut factors = [2, 5, 10].into_iter().cycle();
    let mut decade = 1;
    while f64::from(most) / f64::from(step) > TICKS_MAX - 1.0 {
        let factor = factors.next().unwrap_or(10);
        step = decade * factor;
        if factor == 10 {
            decade *= 10;
        }
    }
    (1..=most / step).map(|tick| tick * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(times(21.0), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(times(60.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(
            times(1800.0),
            [0.0, 300.0, 600.0, 900.0, 1200.0, 1500.0, 1800.0]
        );
        assert_eq!(times(86400.0).len(), 5, "every six hours");
        assert_eq!(times(1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert!(times(1e9).len() <= 7);
        assert_eq!(counts(3), [1, 2, 3]);
        assert_eq!(counts(13), [5, 10]);
        assert_eq!(counts(40), [10, 20, 30, 40]);
        assert_eq!(counts(1300), [500, 1000]);
    }
}
