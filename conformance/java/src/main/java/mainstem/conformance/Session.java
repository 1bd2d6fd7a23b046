package mainstem.conformance;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.admin.Admin;
import org.apache.fluss.client.admin.OffsetSpec;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.Scan;
import org.apache.fluss.client.table.scanner.ScanRecord;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.client.table.scanner.log.ScanRecords;
import org.apache.fluss.client.table.writer.AppendWriter;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.record.ChangeType;
import org.apache.fluss.types.DataType;

/** A connection, and the bounded reads and writes that all checks use. */
final class Session implements AutoCloseable {
    static final String DATABASE = "conformance_java";
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long READ_WITHIN_MS = 20_000;

    final Connection connection;
    final Admin admin;

    Session(String server, Map<String, String> options) {
        Configuration configuration = new Configuration();
        configuration.setString("bootstrap.servers", server);
        configuration.setString("client.writer.acks", "all");
        configuration.setString("client.writer.batch-timeout", "10ms");
        // How long a lookup waits for others to share its request: 100 ms by default.
        configuration.setString("client.lookup.batch-timeout", "1ms");
        options.forEach(configuration::setString);
        connection = ConnectionFactory.createConnection(configuration);
        admin = connection.getAdmin();
    }

    /** A row as it was read. */
    record Read(
            Long partition,
            int bucket,
            long offset,
            long timestamp,
            ChangeType change,
            List<Object> cells) {}

    /** One bucket of a table or of a partition. */
    record Place(Long partition, int bucket) {}

    static TablePath path(String table) {
        return TablePath.of(DATABASE, table);
    }

    Table create(String name, TableDescriptor descriptor) throws Exception {
        admin.createTable(path(name), descriptor, false).get();
        return connection.getTable(path(name));
    }

    static List<Integer> buckets(Table table) {
        return IntStream.range(0, table.getTableInfo().getNumBuckets()).boxed().toList();
    }

    static List<DataType> types(Table table) {
        return table.getTableInfo().getRowType().getFieldTypes();
    }

    /** Appends the rows and waits for each acknowledgement. */
    static void append(Table table, List<List<Object>> rows) throws Exception {
        AppendWriter writer = table.newAppend().createWriter();
        List<DataType> types = types(table);
        var results = new ArrayList<java.util.concurrent.CompletableFuture<?>>();
        for (List<Object> row : rows) {
            results.add(writer.append(Values.row(row, types)));
        }
        writer.flush();
        for (var result : results) {
            result.get();
        }
    }

    Map<Integer, Long> offsets(Table table, OffsetSpec spec) throws Exception {
        return admin.listOffsets(table.getTableInfo().getTablePath(), buckets(table), spec)
                .all()
                .get();
    }

    /** Reads a table without partitions; {@code projection} null means all columns. */
    List<Read> read(Table table, int[] projection) throws Exception {
        Scan scan = table.newScan();
        List<DataType> types = types(table);
        if (projection != null) {
            scan = scan.project(projection);
            List<DataType> all = types;
            types = IntStream.of(projection).mapToObj(all::get).toList();
        }
        Map<Place, Long> ends = new HashMap<>();
        offsets(table, new OffsetSpec.LatestSpec())
                .forEach((bucket, end) -> ends.put(new Place(null, bucket), end));
        try (LogScanner scanner = scan.createLogScanner()) {
            for (int bucket : buckets(table)) {
                scanner.subscribeFromBeginning(bucket);
            }
            return until(scanner, ends, types);
        }
    }

    /** Polls until every bucket of {@code ends} has been read to its end. */
    static List<Read> until(LogScanner scanner, Map<Place, Long> ends, List<DataType> types) {
        long expected = ends.values().stream().mapToLong(Long::longValue).sum();
        long deadline = System.currentTimeMillis() + READ_WITHIN_MS;
        List<Read> reads = new ArrayList<>();
        while (reads.size() < expected) {
            Check.that(
                    reads.size() + " of " + expected + " rows after 20 s; ends " + ends,
                    System.currentTimeMillis() < deadline);
            reads.addAll(poll(scanner, types));
        }
        reads.sort(
                Comparator.comparing((Read read) -> read.partition() == null ? -1 : read.partition())
                        .thenComparing(Read::bucket)
                        .thenComparing(Read::offset));
        Map<Place, Long> next = new HashMap<>();
        for (Read read : reads) {
            Place place = new Place(read.partition(), read.bucket());
            long due = next.getOrDefault(place, 0L);
            Check.equal("offset in " + place, due, read.offset());
            next.put(place, due + 1);
        }
        ends.forEach(
                (place, end) ->
                        Check.equal("rows of " + place, end, next.getOrDefault(place, 0L)));
        return reads;
    }

    /** One poll. Every record of a log table is an append. */
    static List<Read> poll(LogScanner scanner, List<DataType> types) {
        List<Read> reads = pollChanges(scanner, types);
        for (Read read : reads) {
            Check.equal("change type", ChangeType.APPEND_ONLY, read.change());
        }
        return reads;
    }

    /** One poll, of records of any change type. */
    static List<Read> pollChanges(LogScanner scanner, List<DataType> types) {
        ScanRecords records = scanner.poll(POLL);
        List<Read> reads = new ArrayList<>();
        for (TableBucket bucket : records.buckets()) {
            for (ScanRecord record : records.records(bucket)) {
                reads.add(
                        new Read(
                                bucket.getPartitionId(),
                                bucket.getBucket(),
                                record.logOffset(),
                                record.timestamp(),
                                record.getChangeType(),
                                Values.cells(record.getRow(), types)));
            }
        }
        return reads;
    }

    /** Polls until {@code count} rows have come, then once more for rows that must not. */
    static List<List<Object>> exactly(LogScanner scanner, int count, List<DataType> types) {
        long deadline = System.currentTimeMillis() + READ_WITHIN_MS;
        List<List<Object>> rows = new ArrayList<>();
        while (rows.size() < count && System.currentTimeMillis() < deadline) {
            poll(scanner, types).forEach(read -> rows.add(read.cells()));
        }
        poll(scanner, types).forEach(read -> rows.add(read.cells()));
        return rows;
    }

    @Override
    public void close() throws Exception {
        admin.close();
        connection.close();
    }
}
