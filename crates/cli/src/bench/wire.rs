//! A blocking connection that costs the client as little as possible.

use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use mainstem_protocol::frame::{DEFAULT_MAX_REQUEST_BYTES, check_response_length};
use mainstem_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use mainstem_protocol::{ApiKey, RequestHeader, Required, ResponseFrame, Shaped, decode};
use prost::Message;
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, recv};

/// A server that says nothing for so long is broken.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// See the module.
pub struct WireConnection {
    stream: TcpStream,
    next_request_id: i32,
}

/// A request that is sent many times: all but its id is ready.
pub struct Frame {
    /// Length, header, and the message up to the records.
    head: Vec<u8>,
    /// The rest, not copied.
    tail: Vec<Bytes>,
}

impl Frame {
    /// A request of an encoded message in parts.
    pub fn new(api: ApiKey, parts: Vec<Bytes>) -> Result<Self> {
        let length = parts.iter().map(|part| part.len() as u64).sum();
        let header = RequestHeader {
            api_key: api.code(),
            api_version: 0,
            request_id: 0,
        };
        let mut head = header.encode(length).context("request too long")?.to_vec();
        let mut parts = parts.into_iter();
        if let Some(first) = parts.next() {
            head.extend_from_slice(&first);
        }
        Ok(Self {
            head,
            tail: parts.collect(),
        })
    }
}

impl WireConnection {
    /// Connects and asks for the APIs, as every client does.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let mut connection = Self::open_silently(address)?;
        let _: ApiVersionsResponse = connection.call(
            ApiKey::ApiVersions,
            &ApiVersionsRequest {
                client_software_name: Some("mainstem-bench".to_owned()),
                client_software_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            },
        )?;
        Ok(connection)
    }

    /// Connects, and says nothing: the floor program knows two requests only.
    pub fn open_silently(address: SocketAddr) -> Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self {
            stream,
            next_request_id: 0,
        })
    }

    /// A second handle, to receive on another thread.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self {
            stream: self.stream.try_clone()?,
            next_request_id: 0,
        })
    }

    /// Sends a request and waits for its response; no other may be under way.
    pub fn call<Q, R>(&mut self, api: ApiKey, request: &Q) -> Result<R>
    where
        Q: Message,
        R: Message + Default + Required + Shaped,
    {
        let frame = Frame::new(api, vec![request.encode_to_vec().into()])?;
        let sent = self.send(&frame)?;
        let (answered, body) = self.receive().with_context(|| api.name())?;
        ensure!(sent == answered, "response {answered} for request {sent}");
        Ok(decode(body)?)
    }

    /// Sends a request; returns its id.
    pub fn send(&mut self, frame: &Frame) -> Result<i32> {
        let id = self.next_request_id;
        self.next_request_id = id.wrapping_add(1);
        // The id is the last field of the header, in front of the message.
        let (before, after) = (&frame.head[..8], &frame.head[12..]);
        let id_bytes = id.to_be_bytes();
        let mut slices = vec![
            IoSlice::new(before),
            IoSlice::new(&id_bytes),
            IoSlice::new(after),
        ];
        slices.extend(frame.tail.iter().map(|part| IoSlice::new(part)));
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let written = self.stream.write_vectored(rest).context("send")?;
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(id)
    }

    /// The next response: id and message.
    pub fn receive(&mut self) -> Result<(i32, Bytes)> {
        match ResponseFrame::parse(self.receive_frame()?)? {
            ResponseFrame::Success { request_id, body } => Ok((request_id, body)),
            ResponseFrame::Error { error, .. } | ResponseFrame::ServerFailure { error } => {
                let error = error?;
                bail!(
                    "error {}: {}",
                    error.error_code.unwrap_or_default(),
                    error.error_message.unwrap_or_default()
                )
            }
        }
    }

    /// The next frame, without its length.
    pub fn receive_frame(&mut self) -> Result<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).context("receive")?;
        let length = check_response_length(length, DEFAULT_MAX_REQUEST_BYTES)?;
        let mut frame = Vec::with_capacity(length);
        while frame.len() < length {
            let room = length - frame.len();
            frame.reserve_exact(room);
            let (_, count) = recv(&self.stream, spare_capacity(&mut frame), RecvFlags::WAITALL)
                .context("receive")?;
            ensure!(count > 0, "the connection was closed inside a frame");
        }
        Ok(Bytes::from(frame))
    }

    /// Whether a response has begun to arrive.
    pub fn is_readable(&self) -> Result<bool> {
        let mut byte = [0_u8; 1];
        match recv(
            &self.stream,
            &mut byte[..],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        ) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
