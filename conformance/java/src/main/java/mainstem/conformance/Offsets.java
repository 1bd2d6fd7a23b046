package mainstem.conformance;

import static java.util.Arrays.asList;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.fluss.client.admin.OffsetSpec;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.Scan;
import org.apache.fluss.client.table.scanner.batch.BatchScanner;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.rpc.protocol.Errors;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DataTypes;
import org.apache.fluss.utils.CloseableIterator;

/** Offsets by earliest, latest and timestamp; limit scans; statistics. */
final class Offsets {
    private Offsets() {}

    static void run(Session session) throws Exception {
        System.out.println("offsets, limit scan, statistics");
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(
                                Schema.newBuilder()
                                        .column("id", DataTypes.INT())
                                        .column("name", DataTypes.STRING())
                                        .build())
                        .distributedBy(1)
                        .build();
        try (Table table = session.create("offsets", descriptor)) {
            byTimestamp(session, table);
            inTheMiddle(table);
            limits(session, table);
            Check.equal(
                    "row count",
                    25L,
                    session.admin.getTableStats(Session.path("offsets")).get().getRowCount());
            Check.passed("table statistics");
        }
    }

    private static void append(Table table, int from, int to) throws Exception {
        List<List<Object>> rows = new ArrayList<>();
        for (int id = from; id < to; id++) {
            rows.add(asList(id, "row " + id));
        }
        Session.append(table, rows);
    }

    private static long offset(Session session, Table table, OffsetSpec spec) throws Exception {
        return session.offsets(table, spec).get(0);
    }

    private static void byTimestamp(Session session, Table table) throws Exception {
        Check.equal("earliest, empty", 0L, offset(session, table, new OffsetSpec.EarliestSpec()));
        Check.equal("latest, empty", 0L, offset(session, table, new OffsetSpec.LatestSpec()));
        long before = System.currentTimeMillis();
        append(table, 0, 10);
        // The two batches must not share a millisecond, nor the question with the second one: a
        // timestamp after the server's clock is refused.
        Thread.sleep(20);
        append(table, 10, 25);
        Thread.sleep(20);
        long after = System.currentTimeMillis();
        Check.equal("earliest", 0L, offset(session, table, new OffsetSpec.EarliestSpec()));
        Check.equal("latest", 25L, offset(session, table, new OffsetSpec.LatestSpec()));
        List<Session.Read> reads = session.read(table, null);
        for (Session.Read read : reads) {
            Check.that(
                    "the time of row " + read.offset() + " is that of its append",
                    before <= read.timestamp() && read.timestamp() <= after);
        }
        long first = reads.get(9).timestamp();
        long second = reads.get(10).timestamp();
        Check.that("the second batch is later than the first", first < second);
        long[][] cases = {
            {reads.get(0).timestamp() - 1_000_000, 0},
            {reads.get(0).timestamp(), 0},
            {first + 1, 10},
            {second, 10},
            {reads.get(24).timestamp() + 1, 25}
        };
        for (long[] one : cases) {
            Check.equal(
                    "offset of timestamp " + one[0] + " (batches at " + first + ", " + second + ")",
                    one[1],
                    offset(session, table, new OffsetSpec.TimestampSpec(one[0])));
        }
        Check.failsWith(
                "the offset of a timestamp in an hour",
                Errors.INVALID_TIMESTAMP_EXCEPTION,
                () -> offset(session, table, new OffsetSpec.TimestampSpec(after + 3_600_000)));
        Check.passed("earliest, latest, timestamp");
    }

    private static void inTheMiddle(Table table) throws Exception {
        List<DataType> types = Session.types(table);
        try (LogScanner scanner = table.newScan().createLogScanner()) {
            scanner.subscribe(0, 13);
            List<List<Object>> rows = Session.exactly(scanner, 12, types);
            Check.equal("rows from the middle of a batch", 12, rows.size());
            Check.equal("the first of them", 13, rows.get(0).get(0));
        }
        Check.passed("start in the middle of a batch");
    }

    private static List<Object> column(Scan scan, TableBucket bucket, DataType type)
            throws Exception {
        List<Object> values = new ArrayList<>();
        try (BatchScanner scanner =
                bucket == null ? scan.createBatchScanner() : scan.createBatchScanner(bucket)) {
            while (true) {
                try (CloseableIterator<InternalRow> rows =
                        scanner.pollBatch(Duration.ofSeconds(10))) {
                    if (rows == null) {
                        return values;
                    }
                    rows.forEachRemaining(row -> values.add(Values.read(row, 0, type)));
                }
            }
        }
    }

    private static void limits(Session session, Table table) throws Exception {
        TableBucket bucket = new TableBucket(table.getTableInfo().getTableId(), 0);
        Check.equal(
                "limit scan: the last five rows",
                List.of(20, 21, 22, 23, 24),
                column(table.newScan().limit(5), bucket, DataTypes.INT()));
        Check.equal(
                "limit scan of one column",
                List.of("row 22", "row 23", "row 24"),
                column(
                        table.newScan().project(new int[] {1}).limit(3),
                        bucket,
                        DataTypes.STRING()));
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(Schema.newBuilder().column("id", DataTypes.INT()).build())
                        .distributedBy(3, "id")
                        .build();
        try (Table several = session.create("limited", descriptor)) {
            List<List<Object>> rows = new ArrayList<>();
            for (int id = 0; id < 30; id++) {
                rows.add(asList(id));
            }
            Session.append(several, rows);
            Check.equal(
                    "limit scan of three buckets: rows",
                    5,
                    column(several.newScan().limit(5), null, DataTypes.INT()).size());
        }
        Check.passed("limit scan of a bucket, a column, a table");
    }
}
