package mainstem.conformance;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.apache.fluss.client.admin.OffsetSpec;
import org.apache.fluss.client.lookup.Lookup;
import org.apache.fluss.client.lookup.Lookuper;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.Scan;
import org.apache.fluss.client.table.scanner.batch.BatchScanner;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.client.table.writer.Upsert;
import org.apache.fluss.client.table.writer.UpsertWriter;
import org.apache.fluss.metadata.PartitionInfo;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TableInfo;
import org.apache.fluss.record.ChangeType;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.types.DataType;
import org.apache.fluss.utils.CloseableIterator;

/** Writes and reads by key, and changelogs. Each write waits for its acknowledgement. */
final class Keyed {
    private Keyed() {}

    private static final long READ_WITHIN_MS = 30_000;

    /** One write: a row of all columns, of which a delete needs the key only. */
    record Op(boolean delete, List<Object> row) {}

    /** A change and the row that it carries. */
    record Change(ChangeType kind, List<Object> row) {}

    static Op put(Object... row) {
        return new Op(false, Arrays.asList(row));
    }

    static Op remove(Object... row) {
        return new Op(true, Arrays.asList(row));
    }

    static List<Op> puts(List<List<Object>> rows) {
        return rows.stream().map(row -> new Op(false, row)).toList();
    }

    static List<Op> removes(List<List<Object>> rows) {
        return rows.stream().map(row -> new Op(true, row)).toList();
    }

    static Change inserted(List<Object> row) {
        return new Change(ChangeType.INSERT, row);
    }

    static Change after(List<Object> row) {
        return new Change(ChangeType.UPDATE_AFTER, row);
    }

    static Change deleted(List<Object> row) {
        return new Change(ChangeType.DELETE, row);
    }

    static List<Change> updated(List<Object> before, List<Object> after) {
        return List.of(new Change(ChangeType.UPDATE_BEFORE, before), after(after));
    }

    static Table create(Session session, String name, Schema schema, Map<String, String> properties)
            throws Exception {
        return create(session, name, schema, properties, 1);
    }

    static Table create(
            Session session,
            String name,
            Schema schema,
            Map<String, String> properties,
            int buckets,
            String... bucketKeys)
            throws Exception {
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(schema)
                        .properties(properties)
                        .distributedBy(buckets, bucketKeys)
                        .build();
        return session.create(name, descriptor);
    }

    /** Sends the writes in order, in as few batches as the client makes of them. */
    static void apply(Table table, List<Op> writes) throws Exception {
        apply(table, table.newUpsert(), writes);
    }

    static void apply(Table table, Op... writes) throws Exception {
        apply(table, List.of(writes));
    }

    static void partial(Table table, int[] targets, Op... writes) throws Exception {
        apply(table, table.newUpsert().partialUpdate(targets), List.of(writes));
    }

    static void apply(Table table, Upsert upsert, List<Op> writes) throws Exception {
        UpsertWriter writer = upsert.createWriter();
        List<DataType> types = Session.types(table);
        List<CompletableFuture<?>> results = new ArrayList<>();
        for (Op write : writes) {
            InternalRow row = Values.row(write.row(), types);
            results.add(write.delete() ? writer.delete(row) : writer.upsert(row));
        }
        writer.flush();
        for (CompletableFuture<?> result : results) {
            result.get();
        }
    }

    static int[] keyColumns(Table table) {
        return table.getTableInfo().getSchema().getPrimaryKeyIndexes();
    }

    /** The row of each key, or null. All keys are asked for at once. */
    static List<List<Object>> lookup(Table table, List<List<Object>> keys) throws Exception {
        return lookup(table, table.newLookup(), keys);
    }

    static List<List<Object>> lookup(Table table, Lookup lookup, List<List<Object>> keys)
            throws Exception {
        List<DataType> types = Session.types(table);
        List<DataType> keyTypes =
                IntStream.of(keyColumns(table)).mapToObj(types::get).toList();
        Lookuper lookuper = lookup.createLookuper();
        var asked = keys.stream().map(key -> lookuper.lookup(Values.row(key, keyTypes))).toList();
        List<List<Object>> rows = new ArrayList<>();
        for (var answer : asked) {
            InternalRow row = answer.get().getSingletonRow();
            rows.add(row == null ? null : Values.cells(row, types));
        }
        return rows;
    }

    static List<List<Object>> prefixLookup(Table table, List<String> columns, Object... prefix)
            throws Exception {
        List<DataType> types = Session.types(table);
        List<String> names = table.getTableInfo().getRowType().getFieldNames();
        List<DataType> prefixTypes =
                columns.stream().map(name -> types.get(names.indexOf(name))).toList();
        Lookuper lookuper = table.newLookup().lookupBy(columns).createLookuper();
        return lookuper
                .lookup(Values.row(Arrays.asList(prefix), prefixTypes))
                .get()
                .getRowList()
                .stream()
                .map(row -> Values.cells(row, types))
                .toList();
    }

    /** All rows that a batch scan brings. */
    static List<List<Object>> drain(BatchScanner scanner, List<DataType> types) throws Exception {
        long deadline = System.currentTimeMillis() + READ_WITHIN_MS;
        List<List<Object>> rows = new ArrayList<>();
        try (scanner) {
            while (true) {
                Check.that("a batch scan ends", System.currentTimeMillis() < deadline);
                CloseableIterator<InternalRow> batch = scanner.pollBatch(Duration.ofMillis(500));
                if (batch == null) {
                    return rows;
                }
                try (batch) {
                    while (batch.hasNext()) {
                        rows.add(Values.cells(batch.next(), types));
                    }
                }
            }
        }
    }

    /** All rows of a table, in all partitions and buckets, by scan sessions. */
    static List<List<Object>> scan(Table table) throws Exception {
        return drain(table.newScan().createBatchScanner(), Session.types(table));
    }

    static long count(Session session, Table table) throws Exception {
        return session.admin
                .getTableStats(table.getTableInfo().getTablePath())
                .get()
                .getRowCount();
    }

    /** The whole changelog of a table of one bucket is {@code expected}. */
    static void expect(
            Session session, Table table, String what, List<Change> expected, int[]... projections)
            throws Exception {
        compare(what, expected, changes(session, table, expected.size(), null));
        for (int[] columns : projections) {
            List<Change> narrow =
                    expected.stream()
                            .map(change -> new Change(change.kind(), pick(change.row(), columns)))
                            .toList();
            compare(
                    what + ", columns " + Arrays.toString(columns),
                    narrow,
                    changes(session, table, expected.size(), columns));
        }
    }

    static List<Object> pick(List<Object> row, int[] columns) {
        List<Object> cells = new ArrayList<>();
        for (int column : columns) {
            cells.add(row.get(column));
        }
        return cells;
    }

    private static void compare(String what, List<Change> expected, List<Session.Read> reads) {
        for (int n = 0; n < expected.size(); n++) {
            Session.Read read = reads.get(n);
            String title = what + ": change " + n + ", at offset " + read.offset();
            Check.equal(title + ": type", expected.get(n).kind(), read.change());
            List<Object> row = expected.get(n).row();
            Check.equal(title + ": columns", row.size(), read.cells().size());
            for (int column = 0; column < row.size(); column++) {
                Check.equal(
                        title + ": column " + column, row.get(column), read.cells().get(column));
            }
        }
    }

    /**
     * All changes, {@code count} of them and not one more, in the order of partition, bucket and
     * offset. Each -U stands right before its +U.
     */
    static List<Session.Read> changes(Session session, Table table, int count, int[] projection)
            throws Exception {
        Scan scan = table.newScan();
        List<DataType> types = Session.types(table);
        if (projection != null) {
            scan = scan.project(projection);
            types = IntStream.of(projection).mapToObj(types::get).toList();
        }
        Map<Session.Place, Long> ends = ends(session, table);
        List<Session.Read> reads = new ArrayList<>();
        try (LogScanner scanner = scan.createLogScanner()) {
            for (Session.Place place : ends.keySet()) {
                if (place.partition() == null) {
                    scanner.subscribeFromBeginning(place.bucket());
                } else {
                    scanner.subscribeFromBeginning(place.partition(), place.bucket());
                }
            }
            long deadline = System.currentTimeMillis() + READ_WITHIN_MS;
            while (reads.size() < count) {
                Check.that(
                        reads.size() + " of " + count + " changes after 30 s",
                        System.currentTimeMillis() < deadline);
                reads.addAll(Session.pollChanges(scanner, types));
            }
            // Batches without a change may stand at the end, and hide one too many.
            if (!complete(reads, ends)) {
                reads.addAll(Session.pollChanges(scanner, types));
            }
        }
        Check.equal("changes in the changelog", count, reads.size());
        reads.sort(
                Comparator.comparing((Session.Read r) -> r.partition() == null ? -1 : r.partition())
                        .thenComparing(Session.Read::bucket)
                        .thenComparing(Session.Read::offset));
        for (int n = 0; n < reads.size(); n++) {
            Session.Read read = reads.get(n);
            if (read.change() == ChangeType.UPDATE_BEFORE) {
                Check.that("a +U behind the -U at " + read.offset(), n + 1 < reads.size());
                Session.Read next = reads.get(n + 1);
                Check.equal("type behind a -U", ChangeType.UPDATE_AFTER, next.change());
                Check.equal("offset behind a -U", read.offset() + 1, next.offset());
            }
        }
        return reads;
    }

    private static Map<Session.Place, Long> ends(Session session, Table table) throws Exception {
        TableInfo info = table.getTableInfo();
        Map<Session.Place, Long> ends = new HashMap<>();
        if (!info.isPartitioned()) {
            session.offsets(table, new OffsetSpec.LatestSpec())
                    .forEach((bucket, end) -> ends.put(new Session.Place(null, bucket), end));
            return ends;
        }
        for (PartitionInfo partition :
                session.admin.listPartitionInfos(info.getTablePath()).get()) {
            session.admin
                    .listOffsets(
                            info.getTablePath(),
                            partition.getPartitionName(),
                            Session.buckets(table),
                            new OffsetSpec.LatestSpec())
                    .all()
                    .get()
                    .forEach(
                            (bucket, end) ->
                                    ends.put(
                                            new Session.Place(partition.getPartitionId(), bucket),
                                            end));
        }
        return ends;
    }

    private static boolean complete(List<Session.Read> reads, Map<Session.Place, Long> ends) {
        Map<Session.Place, Long> next = new HashMap<>();
        for (Session.Read read : reads) {
            next.merge(
                    new Session.Place(read.partition(), read.bucket()),
                    read.offset() + 1,
                    Math::max);
        }
        return ends.entrySet().stream()
                .allMatch(end -> next.getOrDefault(end.getKey(), 0L).equals(end.getValue()));
    }
}
