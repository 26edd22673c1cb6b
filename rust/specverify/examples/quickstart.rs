//! Draft with the suffix index, verify with the target's own noise, append, repeat. Run: `cargo run --example quickstart`.

use specverify::draft::{SuffixConfig, SuffixDrafter};
use specverify::request::Request;
use specverify::rows::{LogprobsMode, Matrix, Values};
use specverify::{DraftTree, Result, SamplingParams};

const VOCAB: usize = 64;

/// Stands for a language model: logits after a text. It likes to count, and is not sure of it.
fn model(text: &[u32]) -> Vec<f32> {
    let last = text.last().map_or(0, |&token| token as usize);
    (0..VOCAB).map(|id| if id == (last + 1) % 8 { 6.0 } else { ((id * 37 + last * 11) % 29) as f32 / 10.0 }).collect()
}

/// Generates 48 tokens and counts the passes. With `drafts` off every pass gives one token.
fn generate(prompt: &[u32], params: &SamplingParams, drafts: bool) -> Result<(Vec<u32>, usize)> {
    let mut drafter = SuffixDrafter::new(SuffixConfig::default())?;
    drafter.start("request", prompt)?;
    let mut text = prompt.to_vec();
    let mut passes = 0;
    while text.len() < prompt.len() + 48 {
        let tree = if drafts { drafter.draft("request", 8)?.into_tree()? } else { DraftTree::new(vec![], vec![])? };

        // One pass of the model: row 0 follows the text, row i + 1 follows node i along its path. An engine computes all rows at
        // once, under the mask of `tree.ancestor_bits()`.
        let mut logits = Vec::new();
        for row in 0..tree.rows() {
            let path = tree.path(row).into_iter().map(|node| tree.tokens()[node as usize]);
            logits.extend(model(&text.iter().copied().chain(path).collect::<Vec<_>>()));
        }
        passes += 1;

        let outcome = Request {
            logits: Matrix::new(Values::F32(&logits), tree.rows(), VOCAB, VOCAB)?,
            tree: &tree.into(),
            rule: None, // auto: target_only, since nothing was drawn
            draft_probs: None,
            params,
            seed: 7,
            position: text.len() as u32,
            prompt,
            output: &text[prompt.len()..],
            stop_token_ids: &[],
            logprobs_mode: LogprobsMode::Raw,
        }
        .verify()?;
        drafter.extend("request", &outcome.tokens)?;
        text.extend(&outcome.tokens);
    }
    text.truncate(prompt.len() + 48);
    Ok((text, passes))
}

fn main() -> Result<()> {
    let params = SamplingParams { temperature: 0.8, top_p: 0.95, ..Default::default() }.validated()?;
    let prompt = [0, 1, 2, 3, 4, 5, 6, 7, 0, 1];
    let (alone, passes) = generate(&prompt, &params, false)?;
    let (drafted, fewer) = generate(&prompt, &params, true)?;
    assert_eq!(alone, drafted, "speculation is invisible: the same text for the same seed");
    assert!(fewer < passes);
    println!("the same {} tokens in {fewer} passes instead of {passes}", alone.len() - prompt.len());
    Ok(())
}
