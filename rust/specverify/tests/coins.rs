//! The noise against golden vectors, which an independent statement of the documented layout computed (numpy, f32, operation by
//! operation). A change here changes every seeded text: it is a major version.

use specverify::coins::{Coins, Stream, derive_seed, exponential, ln};

#[test]
fn noise_matches_the_golden_vectors() {
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let word = |text: &str| u32::from_str_radix(text, 16).unwrap();
    let mut lines = 0;
    for line in include_str!("golden/coins.txt").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            ["exponential", w, e, l] => {
                let got = exponential(word(w));
                assert_eq!((got.to_bits(), ln(got).to_bits()), (word(e), word(l)), "{line}");
            }
            ["race", seed, position, id, e, l] => {
                let got = Coins::new(hex(seed)).exponential(word(position), word(id));
                assert_eq!((got.to_bits(), ln(got).to_bits()), (word(e), word(l)), "{line}");
            }
            ["uniform", seed, step, stream, node, u] => {
                let stream = match stream {
                    "3" => Stream::Draft,
                    "4" => Stream::Accept,
                    "5" => Stream::Residual,
                    "6" => Stream::Bonus,
                    other => panic!("stream {other}"),
                };
                let got = Coins::new(hex(seed)).uniform(word(step), stream, word(node));
                assert_eq!(got.to_bits(), hex(u), "{line}");
            }
            ["derive", engine, id, seed] => {
                assert_eq!(derive_seed(hex(engine), if id == "-" { "" } else { id }), hex(seed), "{line}");
            }
            _ => panic!("{line}"),
        }
        lines += 1;
    }
    assert_eq!(lines, 297);
}

/// Case 5: proposal and residual drawn from one noise stream are biased. No two (stream, index) share a counter, so no coin of one
/// is a coin of another.
#[test]
fn case_05_streams_do_not_share_coins() {
    let coins = Coins::new(16);
    let mut seen = std::collections::HashSet::new();
    for stream in [Stream::Draft, Stream::Accept, Stream::Residual, Stream::Bonus] {
        for step in 0..50 {
            for node in 0..50 {
                assert!(seen.insert(coins.uniform(step, stream, node).to_bits()));
            }
        }
    }
}
