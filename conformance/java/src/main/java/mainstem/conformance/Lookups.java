package mainstem.conformance;

import static java.util.Arrays.asList;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.batch.BatchScanner;
import org.apache.fluss.metadata.PartitionInfo;
import org.apache.fluss.metadata.PartitionSpec;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.types.DataTypes;

/** Prefix lookups, limit scans, scan sessions, insert-if-not-exists, partitions. */
final class Lookups {
    private Lookups() {}

    static void run(Session session) throws Exception {
        prefixes(session, "prefix", Map.of());
        prefixes(session, "prefix_indexed", Map.of("table.kv.format", "INDEXED"));
        for (String format : List.of("paimon", "lance")) {
            prefixes(session, "prefix_" + format, Map.of("table.datalake.format", format));
        }
        for (String format : List.of("paimon", "iceberg", "lance")) {
            texts(session, "prefix_text_" + format, Map.of("table.datalake.format", format));
        }
        texts(session, "prefix_text", Map.of());
        many(session);
        insertIfMissing(session);
        partitioned(session);
    }

    private static void prefixes(Session session, String name, Map<String, String> properties)
            throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("a", DataTypes.INT())
                        .column("b", DataTypes.STRING())
                        .column("c", DataTypes.BIGINT())
                        .column("d", DataTypes.STRING())
                        .primaryKey("a", "b", "c")
                        .build();
        try (Table table = Keyed.create(session, name, schema, properties, 3, "a", "b")) {
            List<List<Object>> rows = new ArrayList<>();
            for (long c = 1; c <= 3; c++) {
                rows.add(asList(1, "aaaaaaaaa", c, "d" + c));
            }
            rows.add(asList(2, "aaaaaaaaa", 4L, null));
            rows.add(asList(1, "aaaaaaaa", 5L, ""));
            rows.add(asList(1, "aaaaaaaaaa", 6L, "x"));
            rows.add(asList(1, "", 7L, "y"));
            rows.add(asList(Integer.MIN_VALUE, "x", 8L, "z"));
            Keyed.apply(table, Keyed.puts(rows));
            List<String> columns = List.of("a", "b");
            KeyedValues.same(
                    name, rows.subList(0, 3), Keyed.prefixLookup(table, columns, 1, "aaaaaaaaa"));
            for (List<Object> row : rows.subList(3, rows.size())) {
                KeyedValues.same(
                        name + ": " + row,
                        List.of(row),
                        Keyed.prefixLookup(table, columns, row.get(0), row.get(1)));
            }
            Check.equal(name, List.of(), Keyed.prefixLookup(table, columns, 3, "a"));
            KeyedValues.same(
                    name + ": whole keys",
                    rows,
                    Keyed.lookup(table, rows.stream().map(row -> row.subList(0, 3)).toList()));
        }
        Check.passed(name + ": prefix lookups, a number and a text");
    }

    private static void texts(Session session, String name, Map<String, String> properties)
            throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("t", DataTypes.STRING())
                        .column("n", DataTypes.INT())
                        .primaryKey("t", "n")
                        .build();
        try (Table table = Keyed.create(session, name, schema, properties, 2, "t")) {
            List<String> texts =
                    List.of("a", "ab", "a\0b", "abcdefg", "abcdefgh", "abcdefghi", "世界");
            List<List<Object>> rows = new ArrayList<>();
            for (String text : texts) {
                for (int n : new int[] {0, 1, 128, 16_384}) {
                    rows.add(asList(text, n));
                }
            }
            Keyed.apply(table, Keyed.puts(rows));
            for (int n = 0; n < texts.size(); n++) {
                List<List<Object>> found =
                        new ArrayList<>(
                                Keyed.prefixLookup(table, List.of("t"), texts.get(n)));
                found.sort(Comparator.comparing(row -> (Integer) row.get(1)));
                KeyedValues.same(
                        name + ": prefix " + texts.get(n), rows.subList(4 * n, 4 * n + 4), found);
            }
            KeyedValues.same(name + ": whole keys", rows, Keyed.lookup(table, rows));
        }
        Check.passed(name + ": prefix lookups, texts that begin alike");
    }

    /** 3,000 rows in three buckets; scan sessions see the rows of their start. */
    private static void many(Session session) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("id", DataTypes.BIGINT())
                        .column("text", DataTypes.STRING())
                        .primaryKey("id")
                        .build();
        try (Table table = Keyed.create(session, "many_rows", schema, Map.of(), 3)) {
            Check.equal("scan of an empty table", List.of(), Keyed.scan(table));
            List<List<Object>> rows = new ArrayList<>();
            for (long n = 0; n < 3_000; n++) {
                rows.add(asList(n * 7_919 - 4_000_000, "text of row " + n));
            }
            Keyed.apply(table, Keyed.puts(rows));
            KeyedValues.same(
                    "3,000 lookups",
                    rows,
                    Keyed.lookup(
                            table,
                            rows.stream().map(row -> row.subList(0, 1)).toList()));
            Comparator<List<Object>> byId = Comparator.comparing(row -> (Long) row.get(0));
            List<List<Object>> scanned = new ArrayList<>(Keyed.scan(table));
            scanned.sort(byId);
            KeyedValues.same("scan of 3,000 rows", rows, scanned);
            long id = table.getTableInfo().getTableId();
            int sum = 0;
            for (int bucket = 0; bucket < 3; bucket++) {
                TableBucket place = new TableBucket(id, bucket);
                BatchScanner scanner = table.newScan().createBatchScanner(place);
                List<List<Object>> part = Keyed.drain(scanner, Session.types(table));
                List<List<Object>> limited =
                        Keyed.drain(
                                table.newScan().limit(10).createBatchScanner(place),
                                Session.types(table));
                KeyedValues.same("limit scan of bucket " + bucket, part.subList(0, 10), limited);
                sum += part.size();
            }
            Check.equal("rows of all buckets", 3_000, sum);
            Check.equal(
                    "limit scan of the table",
                    17,
                    Keyed.drain(
                                    table.newScan().limit(17).createBatchScanner(),
                                    Session.types(table))
                            .size());
        }
        Check.passed("3,000 rows: lookups, scan sessions of buckets and table, limit scans");
    }

    private static void insertIfMissing(Session session) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("a", DataTypes.INT())
                        .column("b", DataTypes.INT())
                        .column("c", DataTypes.STRING())
                        .column("d", DataTypes.STRING())
                        .primaryKey("b", "c")
                        .enableAutoIncrement("a")
                        .build();
        try (Table table = Keyed.create(session, "inserted_by_lookup", schema, Map.of())) {
            List<Object> first = asList(100, "one");
            List<Object> second = asList(200, "");
            Check.equal(
                    "a plain lookup",
                    Collections.singletonList(null),
                    Keyed.lookup(table, List.of(first)));
            for (int round = 0; round < 2; round++) {
                KeyedValues.same(
                        "lookups that insert",
                        List.of(asList(1, 100, "one", null), asList(2, 200, "", null)),
                        List.of(
                                insert(table, List.of(first)).get(0),
                                insert(table, List.of(second)).get(0)));
            }
            KeyedValues.same(
                    "a plain lookup",
                    List.of(asList(2, 200, "", null)),
                    Keyed.lookup(table, List.of(second)));
            // Many at once, each key several times: one row and one number a key.
            List<List<Object>> keys = new ArrayList<>();
            for (int n = 0; n < 200; n++) {
                keys.add(asList(n % 50, "many"));
            }
            List<List<Object>> rows = insert(table, keys);
            for (int n = 0; n < 200; n++) {
                Check.equal("row of a key that repeats", rows.get(n % 50), rows.get(n));
            }
            Check.equal(
                    "numbers",
                    50L,
                    rows.stream().map(row -> row.get(0)).distinct().count());
            Check.equal("rows", 52, Keyed.scan(table).size());
            Keyed.changes(session, table, 52, null)
                    .forEach(
                            read ->
                                    Check.equal(
                                            "change",
                                            org.apache.fluss.record.ChangeType.INSERT,
                                            read.change()));
        }
        Check.passed("insert-if-not-exists: numbers, keys that repeat, 200 at once");
    }

    private static List<List<Object>> insert(Table table, List<List<Object>> keys)
            throws Exception {
        return Keyed.lookup(table, table.newLookup().enableInsertIfNotExists(), keys);
    }

    /** The same key in several partitions; the writer creates them by itself. */
    private static void partitioned(Session session) throws Exception {
        TablePath path = Session.path("keyed_parts");
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(
                                Schema.newBuilder()
                                        .column("region", DataTypes.STRING())
                                        .column("id", DataTypes.INT())
                                        .column("amount", DataTypes.DECIMAL(20, 2))
                                        .column("day", DataTypes.DATE())
                                        .primaryKey("id", "day", "region")
                                        .build())
                        .partitionedBy("day", "region")
                        .distributedBy(2)
                        .build();
        try (Table table = session.create("keyed_parts", descriptor)) {
            List<List<Object>> rows = new ArrayList<>();
            List<List<Object>> keys = new ArrayList<>();
            for (int id = 0; id < 30; id++) {
                for (int day : new int[] {19_782, -1}) {
                    for (String region : List.of("eu", "us")) {
                        rows.add(asList(region, id, new java.math.BigDecimal(id + ".50"), day));
                        keys.add(asList(id, day, region));
                    }
                }
            }
            Keyed.apply(table, Keyed.puts(rows));
            KeyedValues.same("partitions: lookups", rows, Keyed.lookup(table, keys));
            List<String> names =
                    session.admin.listPartitionInfos(path).get().stream()
                            .map(PartitionInfo::getPartitionName)
                            .sorted()
                            .toList();
            Check.equal(
                    "partitions that the writer created",
                    List.of("1969-12-31$eu", "1969-12-31$us", "2024-02-29$eu", "2024-02-29$us"),
                    names);
            Keyed.apply(table, Keyed.removes(rows.subList(0, 1)));
            List<List<Object>> left = new ArrayList<>(rows);
            left.set(0, null);
            Check.equal("partitions: after a deletion", left, Keyed.lookup(table, keys));
            Check.equal("partitions: rows of a scan", 119, Keyed.scan(table).size());
            Check.equal("partitions: count", 119L, Keyed.count(session, table));
            Keyed.changes(session, table, 121, null);
            Check.equal(
                    "a key in a partition that is not there",
                    Collections.singletonList(null),
                    Keyed.lookup(table, List.of(asList(1, 5, "eu"))));
            session.admin
                    .dropPartition(
                            path,
                            new PartitionSpec(Map.of("day", "2024-02-29", "region", "eu")),
                            false)
                    .get();
            try (Table rest = session.connection.getTable(path)) {
                Check.equal("partitions: rows after a drop", 90, Keyed.scan(rest).size());
            }
        }
        Check.passed("partitions: created by the writer, lookups, scans, changelog, drop");
    }
}
