package mainstem.conformance;

import static java.util.Arrays.asList;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.predicate.Predicate;
import org.apache.fluss.predicate.PredicateBuilder;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DataTypes;

/**
 * Filters pushed down to batch statistics: batches that cannot match stay on the server, and the
 * reader still gets past them.
 */
final class Filters {
    private Filters() {}

    private static final int BATCH = 10;

    /** Batches of ten rows: ids 0–9, 100–109, 200–209; the names of the second are null. */
    static void run(Session session) throws Exception {
        System.out.println("filters");
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(
                                Schema.newBuilder()
                                        .column("id", DataTypes.INT())
                                        .column("name", DataTypes.STRING())
                                        .build())
                        .property("table.statistics.columns", "*")
                        .distributedBy(1)
                        .build();
        try (Table table = session.create("filtered", descriptor)) {
            for (int first : new int[] {0, 100, 200}) {
                append(table, first);
            }
            PredicateBuilder is = new PredicateBuilder(table.getTableInfo().getRowType());
            Map<Predicate, List<Integer>> cases = new LinkedHashMap<>();
            cases.put(is.greaterOrEqual(0, 200), List.of(200));
            cases.put(is.lessThan(0, 105), List.of(0, 100));
            cases.put(is.equal(0, 150), List.of());
            cases.put(is.isNull(1), List.of(100));
            cases.put(is.isNotNull(1), List.of(0, 200));
            cases.put(is.in(0, List.of(3, 203)), List.of(0, 200));
            cases.put(
                    PredicateBuilder.or(
                            is.lessThan(0, 5),
                            is.startsWith(1, BinaryString.fromString("name 20"))),
                    List.of(0, 200));
            for (var one : cases.entrySet()) {
                List<Object> expected = new ArrayList<>();
                for (int first : one.getValue()) {
                    for (int id = first; id < first + BATCH; id++) {
                        expected.add(id);
                    }
                }
                try (LogScanner scanner =
                        table.newScan().filter(one.getKey()).createLogScanner()) {
                    scanner.subscribeFromBeginning(0);
                    Check.equal(
                            "ids where " + one.getKey(),
                            expected,
                            ids(scanner, expected.size(), Session.types(table)));
                }
            }
            Check.passed("batches without a match stay on the server");

            try (LogScanner scanner =
                    table.newScan()
                            .filter(is.greaterOrEqual(0, 300))
                            .project(new int[] {0})
                            .createLogScanner()) {
                scanner.subscribeFromBeginning(0);
                List<DataType> types = List.of(DataTypes.INT());
                Check.equal("ids of no match", List.of(), ids(scanner, 0, types));
                append(table, 300);
                Check.equal(
                        "rows that arrive behind a range without a match",
                        BATCH,
                        ids(scanner, BATCH, types).size());
            }
            Check.passed("the reader gets past what does not match");
        }
    }

    private static void append(Table table, int first) throws Exception {
        List<List<Object>> rows = new ArrayList<>();
        for (int id = first; id < first + BATCH; id++) {
            rows.add(asList(id, first == 100 ? null : String.format("name %03d", id)));
        }
        Session.append(table, rows);
    }

    private static List<Object> ids(LogScanner scanner, int count, List<DataType> types) {
        return Session.exactly(scanner, count, types).stream().map(row -> row.get(0)).toList();
    }
}
