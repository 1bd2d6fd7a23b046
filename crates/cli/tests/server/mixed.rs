//! Everything at once: tables and partitions that come and go, appends, reads and
//! questions from several clients, through crashes. What one client does to its
//! own tables must look as if it were alone.

use std::collections::BTreeMap;

use mainstem_format::Value;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, Server, Table, ab, decode_batches, log_table, path};
use mainstem_types::{LogFormat, TypeKind};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::durable;

const CLIENTS: u64 = 4;
const STEPS: usize = 150;

/// What a client knows of its tables: their rows by bucket, or by partition.
struct World {
    name: String,
    random: StdRng,
    plain: BTreeMap<String, (Table, Vec<Vec<i32>>)>,
    parted: Option<(Table, BTreeMap<i64, Vec<i32>>)>,
    next: i32,
}

impl World {
    fn new(number: u64) -> Self {
        Self {
            name: format!("world{number}"),
            random: StdRng::seed_from_u64(number),
            plain: BTreeMap::new(),
            parted: None,
            next: 0,
        }
    }

    fn step(&mut self, client: &mut Client) {
        match self.random.random_range(0..12) {
            0 => self.create(client),
            1 => self.drop_one(client),
            2 => self.add_partition(client),
            3 => self.drop_partition(client),
            4..8 => self.append(client),
            8 => self.append_to_partition(client),
            9 => self.ask(client),
            _ => self.check_one(client),
        }
    }

    fn create(&mut self, client: &mut Client) {
        let number = self.random.random_range(0..4);
        let name = format!("{}.t{number}", self.name);
        if self.plain.contains_key(&name) {
            let request = pb::CreateTableRequest {
                table_path: Some(path(&name)),
                table_json: Some(ab(1).to_json_bytes().into()),
                ignore_if_exists: Some(false),
            };
            assert_eq!(client.code(ApiKey::CreateTable, &request), 8, "{name}");
            return;
        }
        let buckets = self.random.random_range(1..4);
        let table = client.create_table(&name, &ab(buckets));
        self.plain
            .insert(name, (table, vec![Vec::new(); buckets as usize]));
    }

    fn some_table(&mut self) -> Option<String> {
        let at = self.random.random_range(0..self.plain.len().max(1));
        self.plain.keys().nth(at).cloned()
    }

    fn drop_one(&mut self, client: &mut Client) {
        let Some(name) = self.some_table() else {
            return;
        };
        let (table, _) = self.plain.remove(&name).expect("known");
        client.drop_table(&name);
        assert_eq!(
            client.append(&table, 0, &table.source().numbers([1])),
            Err(21),
            "{name}"
        );
    }

    fn rows(&mut self) -> Vec<i32> {
        let count = self.random.random_range(1..20);
        let first = self.next;
        self.next += count;
        (first..first + count).collect()
    }

    fn append(&mut self, client: &mut Client) {
        let Some(name) = self.some_table() else {
            return self.create(client);
        };
        let rows = self.rows();
        let (table, buckets) = self.plain.get_mut(&name).expect("known");
        let bucket = self.random.random_range(0..buckets.len());
        let batch = table.source().numbers(rows.iter().copied());
        let expected = buckets[bucket].len() as i64;
        assert_eq!(
            client.append(table, bucket as i32, &batch),
            Ok(expected),
            "{name} {bucket}"
        );
        buckets[bucket].extend(rows);
    }

    fn parted(&mut self, client: &mut Client) -> &mut (Table, BTreeMap<i64, Vec<i32>>) {
        let name = format!("{}.parted", self.name);
        self.parted.get_or_insert_with(|| {
            let columns = [("a", TypeKind::Int), ("b", TypeKind::String)];
            (
                client.create_table(&name, &log_table(&columns, 1).partitioned_by(["b"])),
                BTreeMap::new(),
            )
        })
    }

    fn add_partition(&mut self, client: &mut Client) {
        let name = format!("p{}", self.random.random_range(0..1_000_000));
        let (table, partitions) = self.parted(client);
        let id = client.create_partition(table, &[("b", &name)]);
        assert!(
            partitions.insert(id, Vec::new()).is_none(),
            "an id given twice"
        );
    }

    fn some_partition(&mut self) -> Option<i64> {
        let (_, partitions) = self.parted.as_ref()?;
        let at = self.random.random_range(0..partitions.len().max(1));
        partitions.keys().nth(at).copied()
    }

    fn drop_partition(&mut self, client: &mut Client) {
        let Some(id) = self.some_partition() else {
            return;
        };
        let (table, partitions) = self.parted.as_mut().expect("known");
        let mut listed = client.partitions(table);
        listed.sort();
        assert!(
            listed.iter().map(|(id, _)| id).eq(partitions.keys()),
            "{listed:?} {partitions:?}"
        );
        let (_, values) = listed
            .into_iter()
            .find(|(known, _)| *known == id)
            .expect("listed");
        client.drop_partition(table, &[("b", &values[0])]);
        partitions.remove(&id);
        assert_eq!(
            client.append_to(table, id, 0, &table.source().numbers([1])),
            Err(21)
        );
    }

    fn append_to_partition(&mut self, client: &mut Client) {
        let Some(id) = self.some_partition() else {
            return;
        };
        let rows = self.rows();
        let (table, partitions) = self.parted.as_mut().expect("known");
        let known = partitions.get_mut(&id).expect("known");
        let batch = table.source().numbers(rows.iter().copied());
        assert_eq!(
            client.append_to(table, id, 0, &batch),
            Ok(known.len() as i64)
        );
        known.extend(rows);
    }

    fn ask(&mut self, client: &mut Client) {
        let request = pb::ListTablesRequest {
            database_name: Some(self.name.clone()),
        };
        let listed: pb::ListTablesResponse = client.call(ApiKey::ListTables, &request);
        let count = self.plain.len() + usize::from(self.parted.is_some());
        assert_eq!(listed.table_name.len(), count, "{:?}", listed.table_name);
        let health: pb::GetClusterHealthResponse =
            client.call(ApiKey::GetClusterHealth, &pb::GetClusterHealthRequest {});
        assert_eq!(health.status, Some(0), "{health:?}");
    }

    fn check_one(&mut self, client: &mut Client) {
        if let Some(id) = self.some_partition() {
            let (table, partitions) = self.parted.as_ref().expect("known");
            check(client, table, Some(id), 0, &partitions[&id]);
        }
        let Some(name) = self.some_table() else {
            return;
        };
        let (table, buckets) = &self.plain[&name];
        let bucket = self.random.random_range(0..buckets.len());
        check(client, table, None, bucket as i32, &buckets[bucket]);
    }

    fn check_all(&self, client: &mut Client) {
        for (table, buckets) in self.plain.values() {
            for (bucket, rows) in (0..).zip(buckets) {
                check(client, table, None, bucket, rows);
            }
        }
        if let Some((table, partitions)) = &self.parted {
            for (id, rows) in partitions {
                check(client, table, Some(*id), 0, rows);
            }
        }
    }
}

fn check(client: &mut Client, table: &Table, partition: Option<i64>, bucket: i32, rows: &[i32]) {
    let entry = client
        .fetch_one(&table.fetch_of([(partition, bucket, 0)]))
        .expect("readable");
    assert_eq!(
        entry.high_watermark,
        Some(rows.len() as i64),
        "{} {partition:?} {bucket}",
        table.name
    );
    let read = decode_batches(
        &entry.records.expect("records"),
        table.schema(),
        LogFormat::Arrow,
    );
    let numbers = read.iter().map(|(_, row)| &row[0]);
    let expected: Vec<Value<'_>> = rows.iter().map(|row| Value::Int(*row)).collect();
    assert!(
        numbers.eq(&expected),
        "{} {partition:?} {bucket}",
        table.name
    );
}

#[test]
fn several_clients_see_their_own_tables_as_if_they_were_alone() {
    let mut server: Server = durable()
        .with("log.segment.file-size", "2000")
        .with("auto-partition.check.interval", "1s")
        .with("log.retention.check-interval", "1s")
        .start();
    let mut worlds: Vec<World> = (0..CLIENTS).map(World::new).collect();
    for world in &worlds {
        server.client().create_database(&world.name);
    }
    for round in 0..3 {
        std::thread::scope(|scope| {
            for world in &mut worlds {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.client();
                    for _ in 0..STEPS {
                        world.step(&mut client);
                    }
                });
            }
        });
        if round == 1 {
            server.restart();
        } else {
            server.crash();
        }
        let mut client = server.client();
        for world in &worlds {
            world.check_all(&mut client);
        }
    }
}
