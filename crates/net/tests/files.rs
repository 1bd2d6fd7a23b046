//! Responses made of file ranges.

mod support;

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_net::{Segment, SendMethod, ServerOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use support::*;

fn random_file(bytes: usize, seed: u64) -> (Arc<File>, Vec<u8>) {
    let mut content = vec![0; bytes];
    StdRng::seed_from_u64(seed).fill(&mut content[..]);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    (Arc::new(file), content)
}

fn server(send_method: SendMethod) -> TestServer {
    TestServer::with_options(ServerOptions {
        send_method,
        ..Default::default()
    })
}

async fn check_parts(send_method: SendMethod, parts: Vec<Segment>, expected: &[u8]) {
    let server = server(send_method);
    server.service.set_parts(parts);
    let mut client = server.connect().await;
    for id in 0..3 {
        client.send(&frame(SCAN, 0, id, b"")).await;
    }
    for id in 0..3 {
        let Answer::Success(answered, body) = client.receive().await else {
            panic!("refused")
        };
        assert_eq!(answered, id);
        assert!(
            body == expected,
            "{send_method:?}: other bytes than in the file"
        );
    }
    client.assert_usable().await;
}

#[tokio::test]
async fn file_ranges_and_memory_arrive_in_order_by_both_methods() {
    let (file, content) = random_file(3_000_000, 1);
    let mut random = StdRng::seed_from_u64(2);
    for send_method in [SendMethod::Copy, SendMethod::Sendfile] {
        for _ in 0..10 {
            let (mut parts, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..random.random_range(1..200) {
                let longest = [10, 1000, 10_000, 500_000][random.random_range(0..4)];
                let length = random.random_range(0..=longest);
                let start = random.random_range(0..=content.len() - length);
                let bytes = &content[start..start + length];
                expected.extend_from_slice(bytes);
                parts.push(if random.random() {
                    Segment::Bytes(Bytes::copy_from_slice(bytes))
                } else {
                    let file = Arc::clone(&file);
                    Segment::File {
                        file,
                        position: start as u64,
                        length: length as u64,
                    }
                });
            }
            check_parts(send_method, parts, &expected).await;
        }
    }
}

#[tokio::test]
async fn ranges_that_are_not_in_the_page_cache_arrive_too() {
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut content = vec![0; 2_000_000];
    StdRng::seed_from_u64(3).fill(&mut content[..]);
    file.write_all(&content).unwrap();
    file.sync_all().unwrap();
    let file = Arc::new(file);
    for send_method in [SendMethod::Copy, SendMethod::Sendfile] {
        let drop_cache = || {
            use rustix::fs::{Advice, fadvise};
            fadvise(&*file, 0, None, Advice::DontNeed).unwrap();
        };
        drop_cache();
        let whole = Segment::File {
            file: Arc::clone(&file),
            position: 5,
            length: content.len() as u64 - 5,
        };
        let parts = vec![
            Segment::Bytes("head".into()),
            whole,
            Segment::Bytes("tail".into()),
        ];
        let expected = [&b"head"[..], &content[5..], b"tail"].concat();
        check_parts(send_method, parts, &expected).await;
    }
}

#[tokio::test]
async fn a_range_beyond_the_file_ends_the_connection_and_not_the_server() {
    let (file, _) = random_file(100_000, 4);
    for send_method in [SendMethod::Copy, SendMethod::Sendfile] {
        let server = server(send_method);
        let file = Arc::clone(&file);
        server.service.set_parts(vec![Segment::File {
            file,
            position: 0,
            length: 100_001,
        }]);
        let mut client = server.connect().await;
        client.send(&frame(SCAN, 0, 1, b"")).await;
        assert_eq!(client.receive().await, Answer::Closed);
        server.connect().await.assert_usable().await;
    }
}

#[tokio::test]
async fn a_response_longer_than_a_frame_is_an_error() {
    let server = TestServer::start();
    let (file, _) = random_file(10, 5);
    let length = 1 << 31;
    server.service.set_parts(vec![Segment::File {
        file,
        position: 0,
        length,
    }]);
    let mut client = server.connect().await;
    assert_eq!(client.code(&frame(SCAN, 0, 1, b"")).await, -1);
    client.assert_usable().await;
}
