package mainstem.conformance;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import mainstem.conformance.Columns.Column;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.rpc.protocol.Errors;

/**
 * Every data type as a value of a primary-key table, in every pair of row format and log format:
 * inserted, updated, deleted; looked up, scanned, read from the changelog.
 */
final class KeyedValues {
    private KeyedValues() {}

    private static final String LOG = "table.log.format";
    private static final String KV = "table.kv.format";

    static void run(Session session) throws Exception {
        List<Column> all = Columns.everyType();
        // CHAR(n) is n bytes for this client in INDEXED rows.
        List<Column> indexed = all.stream().filter(c -> c != Columns.FREE_CHAR).toList();
        Map<String, Map<String, String>> variants = new LinkedHashMap<>();
        variants.put("compacted_arrow", Map.of());
        variants.put(
                "compacted_zstd_9",
                Map.of(
                        "table.log.arrow.compression.type",
                        "ZSTD",
                        "table.log.arrow.compression.zstd.level",
                        "9"));
        variants.put("compacted_compacted", Map.of(LOG, "COMPACTED"));
        variants.put("indexed_arrow", Map.of(KV, "INDEXED"));
        variants.put("indexed_indexed", Map.of(KV, "INDEXED", LOG, "INDEXED"));
        for (var variant : variants.entrySet()) {
            boolean isIndexed = variant.getValue().containsKey(KV);
            one(
                    session,
                    "values_" + variant.getKey(),
                    variant.getValue(),
                    isIndexed ? indexed : all);
        }
        Check.failsWith(
                "a table of COMPACTED rows with an INDEXED changelog",
                Errors.INVALID_CONFIG_EXCEPTION,
                () ->
                        Keyed.create(
                                session,
                                "values_compacted_indexed",
                                Columns.keyedSchema(List.of()),
                                Map.of(LOG, "INDEXED")));
        Check.passed("COMPACTED rows with an INDEXED changelog are refused");
    }

    private static void one(
            Session session, String name, Map<String, String> properties, List<Column> columns)
            throws Exception {
        List<List<Object>> rows = Columns.rows(columns);
        try (Table table =
                Keyed.create(session, name, Columns.keyedSchema(columns), properties)) {
            List<List<Object>> keys =
                    rows.stream().map(row -> Collections.singletonList(row.get(0))).toList();
            Keyed.apply(table, Keyed.puts(rows));
            same(name + ": lookups", rows, Keyed.lookup(table, keys));
            Check.equal(name + ": count", (long) rows.size(), Keyed.count(session, table));
            // Every row takes the values of its neighbour.
            List<List<Object>> changed = new ArrayList<>();
            for (int n = 0; n < rows.size(); n++) {
                List<Object> row = new ArrayList<>(rows.get((n + 1) % rows.size()));
                row.set(0, rows.get(n).get(0));
                changed.add(row);
            }
            Keyed.apply(table, Keyed.puts(changed));
            same(name + ": lookups", changed, Keyed.lookup(table, keys));
            same(name + ": scan", changed, Keyed.scan(table));
            TableBucket bucket = new TableBucket(table.getTableInfo().getTableId(), 0);
            same(
                    name + ": limit scan",
                    changed.subList(0, 5),
                    Keyed.drain(
                            table.newScan().limit(5).createBatchScanner(bucket),
                            Session.types(table)));
            int last = columns.size();
            same(
                    name + ": limit scan of two columns",
                    changed.subList(0, 3).stream()
                            .map(row -> Keyed.pick(row, new int[] {last, 0}))
                            .toList(),
                    Keyed.drain(
                            table.newScan()
                                    .project(new int[] {last, 0})
                                    .limit(3)
                                    .createBatchScanner(bucket),
                            List.of(Session.types(table).get(last), Session.types(table).get(0))));
            Keyed.apply(table, Keyed.removes(changed));
            Check.equal(
                    name + ": lookups of deleted rows",
                    Collections.nCopies(keys.size(), null),
                    Keyed.lookup(table, keys));
            Check.equal(name + ": scan of no rows", List.of(), Keyed.scan(table));
            Check.equal(name + ": count of no rows", 0L, Keyed.count(session, table));
            List<Keyed.Change> expected = new ArrayList<>();
            rows.forEach(row -> expected.add(Keyed.inserted(row)));
            for (int n = 0; n < rows.size(); n++) {
                expected.addAll(Keyed.updated(rows.get(n), changed.get(n)));
            }
            changed.forEach(row -> expected.add(Keyed.deleted(row)));
            int[] reversed = IntStream.rangeClosed(0, last).map(c -> last - c).toArray();
            Keyed.expect(session, table, name, expected, reversed, new int[] {last}, new int[] {0});
            Check.passed(
                    name + ": every type inserted, updated, deleted; lookups, scans, changelog");
        }
    }

    /** Both lists have the same rows, cell by cell. */
    static void same(String what, List<List<Object>> expected, List<List<Object>> actual) {
        Check.equal(what + ": rows", expected.size(), actual.size());
        for (int row = 0; row < expected.size(); row++) {
            Check.that(what + ": a row " + row, actual.get(row) != null);
            Check.equal(what + ": columns", expected.get(row).size(), actual.get(row).size());
            for (int column = 0; column < expected.get(row).size(); column++) {
                Check.equal(
                        what + ": column " + column + " of row " + row,
                        expected.get(row).get(column),
                        actual.get(row).get(column));
            }
        }
    }
}
