//! CPU of the server per gigabyte received and sent, in frames of 1 MiB, beside
//! that of the least program that does the same.
//!
//! `cargo bench -p mainstem-net --bench throughput`. The server has one thread
//! on one core, the client one on the other. Medians of alternating rounds.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use mainstem_net::{
    BoundServer, Listener, Reply, Request, Response, SecurityProtocol, Segment, SendMethod,
    ServerOptions, Service, Session,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use tokio_util::sync::CancellationToken;

const FRAME_BYTES: usize = 1024 * 1024;
const FRAMES: usize = 1000;
const SMALL_REQUESTS: usize = 100_000;
const ROUNDS: usize = 5;
/// Requests for file ranges under way at once.
const WINDOW: usize = 8;
const PRODUCE: i16 = 1014;
const FETCH: i16 = 1015;
const SMALL: i16 = 1003;

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    let content = vec![7u8; 64 * FRAME_BYTES];
    file.write_all_at(&content, 0).expect("write the file");
    let workloads: [(&str, Workload); 8] = [
        (
            "receive, floor: read into one buffer",
            Workload::Floor(floor_receive),
        ),
        (
            "receive, server",
            Workload::Server(SendMethod::Copy, receive),
        ),
        (
            "send file, floor: pread and write",
            Workload::FileFloor(floor_send),
        ),
        (
            "send file, server, copy",
            Workload::Server(SendMethod::Copy, fetch),
        ),
        (
            "send file, server, sendfile",
            Workload::Server(SendMethod::Sendfile, fetch),
        ),
        ("send memory, server", Workload::Memory(fetch)),
        ("small requests, one at a time", Workload::Small(ping)),
        ("small requests, 100 at a time", Workload::Small(pipeline)),
    ];
    let mut results: Vec<Vec<(f64, f64)>> = vec![Vec::new(); workloads.len()];
    for _ in 0..ROUNDS {
        for (workload, results) in workloads.iter().zip(&mut results) {
            results.push(workload.1.run(&file));
        }
    }
    println!("{:<38} {:>12} {:>8}", "workload", "server CPU", "wall");
    for ((name, _), mut results) in workloads.iter().zip(results) {
        results.sort_by(|left, right| left.0.total_cmp(&right.0));
        let (cpu, wall) = results[results.len() / 2];
        println!("{name:<38} {cpu:>12.3} {wall:>8.3}");
    }
    println!("seconds per gigabyte; microseconds per small request");
}

enum Workload {
    Floor(fn(TcpStream)),
    FileFloor(fn(TcpStream, &File)),
    Server(SendMethod, fn(SocketAddr)),
    Memory(fn(SocketAddr)),
    Small(fn(SocketAddr)),
}

impl Workload {
    /// CPU of the server's thread and wall time, in seconds per unit.
    fn run(&self, file: &Arc<File>) -> (f64, f64) {
        let unit = match self {
            // Results are then in microseconds per request.
            Workload::Small(_) => SMALL_REQUESTS as f64 / 1e6,
            _ => (FRAMES * FRAME_BYTES) as f64 / 1e9,
        };
        let (cpu, wall) = match self {
            Workload::Floor(server) => {
                let server = *server;
                run_floor(server, send_all)
            }
            Workload::FileFloor(server) => {
                let (server, file) = (*server, Arc::clone(file));
                run_floor(move |stream| server(stream, &file), receive_all)
            }
            Workload::Server(method, client) => {
                let segment = |position| Segment::File {
                    file: Arc::clone(file),
                    position,
                    length: FRAME_BYTES as u64,
                };
                let segments = (0..64)
                    .map(|index| segment(index * FRAME_BYTES as u64))
                    .collect();
                run_server(*method, segments, *client)
            }
            Workload::Small(client) => run_server(SendMethod::Copy, Vec::new(), *client),
            Workload::Memory(client) => {
                let segments = (0..64).map(|_| Segment::Bytes(Bytes::from(vec![1; FRAME_BYTES])));
                run_server(SendMethod::Copy, segments.collect(), *client)
            }
        };
        (cpu / unit, wall / unit)
    }
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // With a single core there is nothing to separate.
    let _ = sched_setaffinity(None, &set);
}

fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn run_floor(server: impl FnOnce(TcpStream) + Send + 'static, client: fn(TcpStream)) -> (f64, f64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    let server = thread::spawn(move || {
        pin(0);
        let (stream, _) = listener.accept().expect("accept");
        stream.set_nodelay(true).expect("nodelay");
        let start = thread_cpu();
        server(stream);
        thread_cpu() - start
    });
    let start = Instant::now();
    let client = thread::spawn(move || {
        pin(1);
        let stream = TcpStream::connect(address).expect("connect");
        stream.set_nodelay(true).expect("nodelay");
        client(stream);
    });
    client.join().expect("client");
    (
        server.join().expect("server"),
        start.elapsed().as_secs_f64(),
    )
}

fn run_server(
    send_method: SendMethod,
    segments: Vec<Segment>,
    client: fn(SocketAddr),
) -> (f64, f64) {
    let shutdown = CancellationToken::new();
    let (ready, address) = mpsc::sync_channel(1);
    let server = thread::spawn({
        let shutdown = shutdown.clone();
        move || {
            pin(0);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("runtime");
            runtime.block_on(async {
                let listener = Listener {
                    name: "BENCH".into(),
                    address: "127.0.0.1:0".parse().expect("address"),
                    protocol: SecurityProtocol::Plaintext,
                    internal: false,
                };
                let options = ServerOptions {
                    send_method,
                    ..Default::default()
                };
                let server = BoundServer::bind(vec![listener], options).expect("bind");
                ready
                    .send(server.addresses()[0].1)
                    .expect("the main thread waits");
                let service = BenchService { segments };
                let start = thread_cpu();
                server.serve(Arc::new(service), shutdown).await;
                thread_cpu() - start
            })
        }
    });
    let address = address.recv().expect("the server starts");
    let start = Instant::now();
    thread::spawn(move || {
        pin(1);
        client(address);
    })
    .join()
    .expect("client");
    let wall = start.elapsed().as_secs_f64();
    shutdown.cancel();
    (server.join().expect("server"), wall)
}

struct BenchService {
    segments: Vec<Segment>,
}

impl Service for BenchService {
    fn apis(&self) -> &[(i16, i16, i16)] {
        &[(PRODUCE, 0, 0), (FETCH, 0, 0), (SMALL, 0, 0)]
    }

    fn call(&self, _session: &Arc<Session>, request: Request) -> Reply {
        Reply::Now(Response::Success(match request.api_key {
            FETCH => {
                let index = usize::from(request.body[0]) % self.segments.len();
                vec![
                    Segment::Bytes(Bytes::from_static(b"prefix")),
                    self.segments[index].clone(),
                ]
            }
            SMALL => vec![Segment::Bytes(request.body)],
            _ => Vec::new(),
        }))
    }
}

fn frame(api_key: i16, body: &[u8]) -> Vec<u8> {
    let mut out = (8 + body.len() as u32).to_be_bytes().to_vec();
    out.extend(api_key.to_be_bytes());
    out.extend([0; 6]);
    out.extend(body);
    out
}

fn send_all(mut stream: TcpStream) {
    let request = frame(PRODUCE, &vec![1; FRAME_BYTES]);
    for _ in 0..FRAMES {
        stream.write_all(&request).expect("send");
    }
}

fn floor_receive(mut stream: TcpStream) {
    let mut buffer = vec![0; FRAME_BYTES];
    while stream.read(&mut buffer).expect("read") > 0 {}
}

fn receive(address: SocketAddr) {
    let stream = TcpStream::connect(address).expect("connect");
    let mut answers = stream.try_clone().expect("clone");
    let reader = thread::spawn(move || {
        let mut rest = FRAMES * 9;
        let mut buffer = [0; 65536];
        while rest > 0 {
            rest -= answers.read(&mut buffer).expect("read");
        }
    });
    send_all(stream);
    reader.join().expect("answers");
}

fn floor_send(mut stream: TcpStream, file: &File) {
    let mut buffer = vec![0; 256 * 1024];
    for index in 0..FRAMES {
        for part in 0..4 {
            let position = (index % 64) * FRAME_BYTES + part * buffer.len();
            file.read_exact_at(&mut buffer, position as u64)
                .expect("read");
            stream.write_all(&buffer).expect("send");
        }
    }
}

fn receive_all(mut stream: TcpStream) {
    let mut buffer = vec![0; FRAME_BYTES];
    while stream.read(&mut buffer).expect("read") > 0 {}
}

fn fetch(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_nodelay(true).expect("nodelay");
    let answer = 9 + 6 + FRAME_BYTES;
    for index in 0..WINDOW {
        stream
            .write_all(&frame(FETCH, &[index as u8]))
            .expect("send");
    }
    let mut buffer = vec![0; answer];
    for index in 0..FRAMES {
        stream.read_exact(&mut buffer).expect("read");
        if index + WINDOW < FRAMES {
            stream
                .write_all(&frame(FETCH, &[(index % 64) as u8]))
                .expect("send");
        }
    }
}

fn ping(address: SocketAddr) {
    small_requests(address, 1);
}

fn pipeline(address: SocketAddr) {
    small_requests(address, 100);
}

fn small_requests(address: SocketAddr, window: usize) {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_nodelay(true).expect("nodelay");
    let requests = frame(SMALL, &[1; 100]).repeat(window);
    let mut answers = vec![0; window * 109];
    for _ in 0..SMALL_REQUESTS / window {
        stream.write_all(&requests).expect("send");
        stream.read_exact(&mut answers).expect("read");
    }
}
