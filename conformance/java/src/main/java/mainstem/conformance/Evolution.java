package mainstem.conformance;

import static java.util.Arrays.asList;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;
import mainstem.conformance.Columns.Column;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.metadata.LogFormat;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableChange;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.rpc.protocol.Errors;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DataTypes;

/**
 * ADD COLUMN: old and new writers, old and new readers, and the new column projected over batches
 * that do not have it.
 */
final class Evolution {
    private Evolution() {}

    static void run(Session session) throws Exception {
        System.out.println("add column");
        for (LogFormat format : LogFormat.values()) {
            readersAndWriters(session, format);
        }
        everyType(session);
    }

    private static TableChange add(String name, DataType type) {
        return TableChange.addColumn(name, type, null, TableChange.ColumnPosition.last());
    }

    private static void readersAndWriters(Session session, LogFormat format) throws Exception {
        String name = "evolving_" + format.name().toLowerCase();
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(
                                Schema.newBuilder()
                                        .column("id", DataTypes.INT().copy(false))
                                        .column("name", DataTypes.STRING())
                                        .build())
                        .logFormat(format)
                        .distributedBy(1)
                        .build();
        try (Table old = session.create(name, descriptor);
                LogScanner oldScanner = old.newScan().createLogScanner()) {
            List<DataType> oldTypes = Session.types(old);
            oldScanner.subscribeFromBeginning(0);
            Session.append(old, List.of(asList(0, "old 0"), asList(1, "old 1")));
            session.admin
                    .alterTable(
                            Session.path(name),
                            List.of(
                                    add("score", DataTypes.DOUBLE()),
                                    add("tags", DataTypes.ARRAY(DataTypes.INT()))),
                            false)
                    .get();
            Check.failsWith(
                    "add a column that is there",
                    Errors.INVALID_ALTER_TABLE_EXCEPTION,
                    () ->
                            session.admin
                                    .alterTable(
                                            Session.path(name),
                                            List.of(add("name", DataTypes.INT())),
                                            false)
                                    .get());
            try (Table table = session.connection.getTable(Session.path(name))) {
                Check.equal("schema id", 2, table.getTableInfo().getSchemaId());
                Session.append(
                        table,
                        List.of(
                                asList(2, "new 2", 1.0, asList(2, null)),
                                asList(3, "new 3", 1.5, List.of())));
                // The writer that knows the old schema only goes on.
                Session.append(old, List.of(asList(4, "old 4")));
                Session.append(table, List.of(asList(5, "new 5", -0.0, null)));
                List<List<Object>> wide =
                        List.of(
                                asList(0, "old 0", null, null),
                                asList(1, "old 1", null, null),
                                asList(2, "new 2", 1.0, asList(2, null)),
                                asList(3, "new 3", 1.5, List.of()),
                                asList(4, "old 4", null, null),
                                asList(5, "new 5", -0.0, null));
                same(name + ": new reader", wide, session.read(table, null));
                int[][] projections = {{2}, {3}, {3, 0}, {2, 3}, {3, 2, 1, 0}};
                for (int[] projection : projections) {
                    List<List<Object>> expected = new ArrayList<>();
                    for (List<Object> row : wide) {
                        List<Object> cells = new ArrayList<>();
                        IntStream.of(projection).forEach(column -> cells.add(row.get(column)));
                        expected.add(cells);
                    }
                    same(
                            name + ": new reader, columns " + IntStream.of(projection).boxed().toList(),
                            expected,
                            session.read(table, projection));
                }
                List<List<Object>> narrow = Session.exactly(oldScanner, wide.size(), oldTypes);
                Check.equal(
                        name + ": old reader",
                        wide.stream().map(row -> row.subList(0, 2)).toList(),
                        narrow);
            }
        }
        Check.passed(format + ": old and new readers and writers, projection over old batches");
    }

    private static void everyType(Session session) throws Exception {
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(Schema.newBuilder().column("id", DataTypes.INT()).build())
                        .distributedBy(1)
                        .build();
        List<Column> columns =
                Columns.everyType().stream().filter(c -> c.type().isNullable()).toList();
        try (Table first = session.create("growing", descriptor)) {
            Session.append(first, List.of(asList(0)));
        }
        session.admin
                .alterTable(
                        Session.path("growing"),
                        columns.stream().map(c -> add(c.name(), c.type())).toList(),
                        false)
                .get();
        List<Object> old = new ArrayList<>(Collections.nCopies(columns.size() + 1, null));
        old.set(0, 0);
        List<Object> row = new ArrayList<>();
        row.add(1);
        columns.forEach(column -> row.add(column.samples().get(0)));
        try (Table table = session.connection.getTable(Session.path("growing"))) {
            Session.append(table, List.of(row));
            same("columns of every type added", List.of(old, row), session.read(table, null));
            for (int column = 1; column < row.size(); column++) {
                same(
                        "added column " + columns.get(column - 1).name(),
                        List.of(asList((Object) null, 0), asList(row.get(column), 1)),
                        session.read(table, new int[] {column, 0}));
            }
        }
        Check.passed("columns of every type added, each projected over an old batch");
    }

    private static void same(String what, List<List<Object>> expected, List<Session.Read> reads) {
        Check.equal(what, expected, reads.stream().map(Session.Read::cells).toList());
    }
}
