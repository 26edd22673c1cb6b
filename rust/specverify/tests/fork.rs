//! The thread pool survives fork: a child has none of its parent's threads, and builds its own.
#![cfg(unix)]

use specverify::request::{Request, verify_batch};
use specverify::rows::{LogprobsMode, Matrix, Values};
use specverify::verify::AnyTree;
use specverify::{DraftTree, SamplingParams};

#[test]
fn a_forked_child_verifies_the_same_batch() {
    let vocab = 3000;
    let logits: Vec<f32> = (0..2 * vocab).map(|i| ((i * 2_654_435_761_usize) % 1000) as f32 / 200.0).collect();
    let tree: AnyTree = DraftTree::new(vec![5], vec![-1]).unwrap().into();
    let params = SamplingParams::default();
    let request = |seed| Request {
        logits: Matrix::new(Values::F32(&logits), 2, vocab, vocab).unwrap(),
        tree: &tree,
        rule: None,
        draft_probs: None,
        params: &params,
        seed,
        position: 0,
        prompt: &[],
        output: &[],
        stop_token_ids: &[],
        logprobs_mode: LogprobsMode::Raw,
    };
    let batch: Vec<_> = (0..64).map(request).collect();
    // SAFETY: nothing else runs in this process that reads the environment.
    unsafe { std::env::set_var("SPECVERIFY_NUM_THREADS", "2") };
    let parent = verify_batch(&batch).unwrap();
    // SAFETY: the child calls the library and _exit only; alarm ends it should it wait for its parent's threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::alarm(60);
            let same = (0..3).all(|_| verify_batch(&batch).is_ok_and(|outcomes| outcomes == parent));
            libc::_exit(if same { 0 } else { 1 });
        }
    }
    let mut status = -1;
    // SAFETY: `status` outlives the call and `child` is this process's own.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child did not end well");
    assert_eq!(verify_batch(&batch).unwrap(), parent);
    // SAFETY: as above.
    unsafe { std::env::set_var("SPECVERIFY_NUM_THREADS", "many") };
    assert!(verify_batch(&batch).unwrap_err().to_string().starts_with("SPECVERIFY_NUM_THREADS is \"many\""));
}
