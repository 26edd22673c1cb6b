//! The walk of a batch in flat arrays: inputs and outputs of the kernel `tree_walk` (`hip/abi.h`), for tensors in host memory.
//!
//! This is `target_only` where the target's tokens are already known: while a child holds the target's token, go there.

use crate::error::{Error, Result};

/// What is walked. Request b has nodes `cu_nodes[b]..cu_nodes[b + 1]` and one row more: its rows start at `cu_nodes[b] + b`.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// \[requests + 1\], ascending from 0.
    pub cu_nodes: &'a [i32],
    /// \[nodes\], drafted.
    pub tokens: &'a [i32],
    /// \[nodes\], local to the request, -1 for children of the root.
    pub parents: &'a [i32],
    /// \[nodes + requests\], the target's own token of each row.
    pub target_tokens: &'a [i32],
    /// \[nodes + requests\], 0 where that token is good.
    pub row_status: Option<&'a [i32]>,
    /// Offsets \[requests + 1\] into the ids: a request's stop tokens.
    pub stops: Option<(&'a [i32], &'a [i32])>,
    /// Room for accepted nodes of a request.
    pub max_path: usize,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walked {
    /// \[requests, max_path\], accepted nodes, -1 after them.
    pub path: Vec<i32>,
    /// \[requests, max_path + 1\], accepted tokens and one more, -1 after them. Nothing follows a stop token.
    pub emitted: Vec<i32>,
    /// \[requests\], nodes of the path.
    pub accepted: Vec<i32>,
    /// \[requests\], tokens emitted.
    pub counts: Vec<i32>,
    /// \[requests\], the last of them, -1 for none.
    pub last_token: Vec<i32>,
    /// \[requests\], 0, or the row status that ended the walk, or -1: the path is longer than `max_path`.
    pub status: Vec<i32>,
}

impl Batch<'_> {
    /// Walks every tree.
    ///
    /// # Errors
    /// [`Error::Shape`] when lengths don't fit each other, [`Error::Argument`] when offsets don't ascend from 0.
    pub fn walk(&self) -> Result<Walked> {
        let requests = offsets("cu_nodes", self.cu_nodes, self.tokens.len(), "tokens")?;
        let rows = self.tokens.len() + requests;
        length("parents", self.parents, self.tokens.len(), "one a node")?;
        length("target_tokens", self.target_tokens, rows, "one a row: nodes + requests")?;
        if let Some(status) = self.row_status {
            length("row_status", status, rows, "one a row: nodes + requests")?;
        }
        if let Some((starts, ids)) = self.stops {
            length("stop_offsets", starts, requests + 1, "requests + 1")?;
            offsets("stop_offsets", starts, ids.len(), "stop_ids")?;
        }
        let mut walked = Walked {
            path: vec![-1; requests * self.max_path],
            emitted: vec![-1; requests * (self.max_path + 1)],
            ..Walked::default()
        };
        for b in 0..requests {
            let path = &mut walked.path[b * self.max_path..][..self.max_path];
            let emitted = &mut walked.emitted[b * (self.max_path + 1)..][..self.max_path + 1];
            let (accepted, count, status) = self.walk_one(b, path, emitted);
            walked.accepted.push(accepted as i32);
            walked.counts.push(count as i32);
            walked.last_token.push(if count == 0 { -1 } else { emitted[count - 1] });
            walked.status.push(status);
        }
        Ok(walked)
    }

    fn walk_one(&self, b: usize, path: &mut [i32], emitted: &mut [i32]) -> (usize, usize, i32) {
        let (first, end) = (self.cu_nodes[b] as usize, self.cu_nodes[b + 1] as usize);
        let (tokens, parents) = (&self.tokens[first..end], &self.parents[first..end]);
        let stops = self.stops.map_or(&[][..], |(starts, ids)| &ids[starts[b] as usize..starts[b + 1] as usize]);
        let (mut node, mut accepted, mut count) = (-1_i32, 0, 0);
        loop {
            let row = first + b + (node + 1) as usize;
            let status = self.row_status.map_or(0, |status| status[row]);
            if status != 0 {
                return (accepted, count, status);
            }
            let token = self.target_tokens[row];
            emitted[count] = token;
            count += 1;
            // A node stands behind its parent.
            let after = (node + 1) as usize;
            let Some(child) = (after..tokens.len()).find(|&i| parents[i] == node && tokens[i] == token) else {
                return (accepted, count, 0);
            };
            if accepted == path.len() {
                return (accepted, count, -1);
            }
            path[accepted] = child as i32;
            accepted += 1;
            if stops.contains(&token) {
                return (accepted, count, 0);
            }
            node = child as i32;
        }
    }
}

/// Checks offsets into `total` items; returns how many ranges they bound.
fn offsets(name: &str, offsets: &[i32], total: usize, of: &str) -> Result<usize> {
    if offsets.is_empty() {
        return Err(Error::shape(name, 0, "at least one: 0"));
    }
    let mut last = 0;
    for (i, &offset) in offsets.iter().enumerate() {
        if offset < last || (i == 0 && offset != 0) {
            return Err(Error::argument(format!("{name}[{i}]"), offset, "offsets that ascend from 0"));
        }
        last = offset;
    }
    match last as usize == total {
        true => Ok(offsets.len() - 1),
        false => {
            Err(Error::argument(format!("{name}[{}]", offsets.len() - 1), last, format!("{total}, the length of {of}")))
        }
    }
}

fn length(name: &str, values: &[i32], expected: usize, what: &str) -> Result<()> {
    match values.len() == expected {
        true => Ok(()),
        false => Err(Error::shape(name, values.len(), format!("{expected} ({what})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Batch<'static> = Batch {
        cu_nodes: &[0, 3, 3, 4],
        tokens: &[5, 6, 7, 9],
        parents: &[-1, -1, 1, -1],
        target_tokens: &[6, 0, 7, 3, 8, 9, 2],
        row_status: None,
        stops: None,
        max_path: 2,
    };

    #[test]
    fn a_tree_an_empty_one_and_a_chain() {
        let walked = BATCH.walk().unwrap();
        assert_eq!(walked.path, [1, 2, -1, -1, 0, -1]);
        assert_eq!(walked.emitted, [6, 7, 3, 8, -1, -1, 9, 2, -1]);
        assert_eq!((walked.accepted, walked.counts), (vec![2, 0, 1], vec![3, 1, 2]));
        assert_eq!((walked.last_token, walked.status), (vec![3, 8, 2], vec![0; 3]));
    }

    #[test]
    fn nothing_follows_a_stop_token_a_bad_row_or_a_full_path() {
        let stops = Batch { stops: Some((&[0, 1, 1, 1], &[6])), ..BATCH }.walk().unwrap();
        assert_eq!((&stops.emitted[..3], stops.accepted[0]), (&[6, -1, -1][..], 1));
        let bad = Batch { row_status: Some(&[0, 0, 1, 0, 2, 0, 0]), ..BATCH }.walk().unwrap();
        assert_eq!((&bad.emitted[..6], bad.status), (&[6, -1, -1, -1, -1, -1][..], vec![1, 2, 0]));
        let full = Batch { max_path: 1, ..BATCH }.walk().unwrap();
        assert_eq!((full.path, full.status), (vec![1, -1, 0], vec![-1, 0, 0]));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (batch, name) in [
            (Batch { cu_nodes: &[], ..BATCH }, "cu_nodes"),
            (Batch { cu_nodes: &[1, 4], ..BATCH }, "cu_nodes[0]"),
            (Batch { cu_nodes: &[0, 3, 2, 4], ..BATCH }, "cu_nodes[2]"),
            (Batch { cu_nodes: &[0, 5], ..BATCH }, "cu_nodes[1]"),
            (Batch { parents: &[-1], ..BATCH }, "parents"),
            (Batch { target_tokens: &[1], ..BATCH }, "target_tokens"),
            (Batch { row_status: Some(&[0]), ..BATCH }, "row_status"),
            (Batch { stops: Some((&[0], &[])), ..BATCH }, "stop_offsets"),
        ] {
            let message = batch.walk().unwrap_err().to_string();
            assert!(message.starts_with(name), "{message}");
        }
    }
}
