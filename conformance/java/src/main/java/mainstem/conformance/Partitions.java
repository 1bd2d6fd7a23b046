package mainstem.conformance;

import static java.util.Arrays.asList;

import java.time.Duration;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.fluss.client.admin.OffsetSpec;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.metadata.PartitionInfo;
import org.apache.fluss.metadata.PartitionSpec;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.rpc.protocol.Errors;
import org.apache.fluss.types.DataTypes;

/**
 * Partitioned tables: create, list, filter, drop, dynamic creation by a writer, automatic
 * partitions, write and read several.
 */
final class Partitions {
    private Partitions() {}

    private static final TablePath PATH = Session.path("partitioned");
    private static final List<String> DAYS = List.of("2024-05-01", "2024-05-02");
    private static final List<String> REGIONS = List.of("eu", "us");
    private static final int BUCKETS = 2;
    private static final int ROWS_PER_PARTITION = 50;

    static void run(Session session, String server) throws Exception {
        System.out.println("partitions");
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(
                                Schema.newBuilder()
                                        .column("id", DataTypes.INT())
                                        .column("day", DataTypes.STRING())
                                        .column("region", DataTypes.STRING())
                                        .column("amount", DataTypes.DOUBLE())
                                        .build())
                        .partitionedBy("day", "region")
                        .distributedBy(BUCKETS, "id")
                        .build();
        try (Table table = session.create("partitioned", descriptor)) {
            createAndList(session);
            writeAndRead(session, table);
            dropSome(session);
            dynamically(session, server, table);
        }
        automatic(session);
    }

    private static PartitionSpec spec(String day, String region) {
        return new PartitionSpec(Map.of("day", day, "region", region));
    }

    private static TreeSet<String> names(Session session, TablePath path) throws Exception {
        TreeSet<String> names = new TreeSet<>();
        for (PartitionInfo info : session.admin.listPartitionInfos(path).get()) {
            names.add(info.getPartitionName());
        }
        return names;
    }

    private static void createAndList(Session session) throws Exception {
        Check.equal("partitions of a new table", new TreeSet<>(), names(session, PATH));
        TreeSet<String> expected = new TreeSet<>();
        for (String day : DAYS) {
            for (String region : REGIONS) {
                session.admin.createPartition(PATH, spec(day, region), false).get();
                expected.add(day + "$" + region);
            }
        }
        Check.equal("partitions", expected, names(session, PATH));
        Check.failsWith(
                "create a partition again",
                Errors.PARTITION_ALREADY_EXISTS,
                () -> session.admin.createPartition(PATH, spec("2024-05-01", "eu"), false).get());
        session.admin.createPartition(PATH, spec("2024-05-01", "eu"), true).get();
        Check.failsWith(
                "a partition without its second key",
                Errors.PARTITION_SPEC_INVALID_EXCEPTION,
                () ->
                        session.admin
                                .createPartition(
                                        PATH, new PartitionSpec(Map.of("day", "2024-05-03")), false)
                                .get());
        List<PartitionInfo> european =
                session.admin
                        .listPartitionInfos(PATH, new PartitionSpec(Map.of("region", "eu")))
                        .get();
        Check.equal("partitions of one region", DAYS.size(), european.size());
        for (PartitionInfo info : european) {
            Check.equal(
                    "region of a listed partition",
                    "eu",
                    info.getPartitionSpec().getSpecMap().get("region"));
        }
        Check.passed("create, list, list with a filter, wrong requests");
    }

    private static void writeAndRead(Session session, Table table) throws Exception {
        Map<String, List<List<Object>>> written = new TreeMap<>();
        List<List<Object>> rows = new ArrayList<>();
        for (int id = 0; id < ROWS_PER_PARTITION; id++) {
            for (String day : DAYS) {
                for (String region : REGIONS) {
                    List<Object> row = asList(id, day, region, id % 7 == 0 ? null : id / 4.0);
                    rows.add(row);
                    written.computeIfAbsent(day + "$" + region, key -> new ArrayList<>()).add(row);
                }
            }
        }
        Session.append(table, rows);
        Check.equal("rows read", written, read(session, table));
        Check.passed("write and read four partitions");
    }

    /** All rows by partition name, each sorted by id. */
    private static Map<String, List<List<Object>>> read(Session session, Table table)
            throws Exception {
        TablePath path = table.getTableInfo().getTablePath();
        Map<Long, String> names = new HashMap<>();
        Map<Session.Place, Long> ends = new HashMap<>();
        List<Session.Read> reads;
        try (LogScanner scanner = table.newScan().createLogScanner()) {
            for (PartitionInfo info : session.admin.listPartitionInfos(path).get()) {
                names.put(info.getPartitionId(), info.getPartitionName());
                Map<Integer, Long> latest =
                        session.admin
                                .listOffsets(
                                        path,
                                        info.getPartitionName(),
                                        Session.buckets(table),
                                        new OffsetSpec.LatestSpec())
                                .all()
                                .get();
                latest.forEach(
                        (bucket, end) -> {
                            ends.put(new Session.Place(info.getPartitionId(), bucket), end);
                            scanner.subscribeFromBeginning(info.getPartitionId(), bucket);
                        });
            }
            reads = Session.until(scanner, ends, Session.types(table));
        }
        Map<String, List<List<Object>>> rows = new TreeMap<>();
        for (Session.Read read : reads) {
            rows.computeIfAbsent(names.get(read.partition()), key -> new ArrayList<>())
                    .add(read.cells());
        }
        rows.values()
                .forEach(list -> list.sort((a, b) -> (Integer) a.get(0) - (Integer) b.get(0)));
        return rows;
    }

    private static void dropSome(Session session) throws Exception {
        session.admin.dropPartition(PATH, spec("2024-05-01", "us"), false).get();
        Check.failsWith(
                "drop a partition again",
                Errors.PARTITION_NOT_EXISTS,
                () -> session.admin.dropPartition(PATH, spec("2024-05-01", "us"), false).get());
        session.admin.dropPartition(PATH, spec("2024-05-01", "us"), true).get();
        Check.that(
                "the dropped partition is not listed",
                !names(session, PATH).contains("2024-05-01$us"));
        Check.passed("drop");
    }

    /** A writer meets partitions that do not exist and creates them. */
    private static void dynamically(Session session, String server, Table table) throws Exception {
        List<List<Object>> rows = new ArrayList<>();
        for (int id = 0; id < 20; id++) {
            rows.add(asList(id, "2030-01-0" + (1 + id % 4), "eu", null));
        }
        Session.append(table, rows);
        Map<String, List<List<Object>>> read = read(session, table);
        for (int day = 1; day <= 4; day++) {
            String name = "2030-01-0" + day + "$eu";
            Check.equal("rows of the new partition " + name, 5, read.get(name).size());
        }
        Check.passed("partitions created by a writer");

        try (Session strict =
                        new Session(
                                server,
                                Map.of("client.writer.dynamic-create-partition.enabled", "false"));
                Table same = strict.connection.getTable(PATH)) {
            Check.failsWith(
                    "write to a missing partition without dynamic creation",
                    Errors.PARTITION_NOT_EXISTS,
                    () -> Session.append(same, List.of(asList(1, "2031-01-01", "eu", null))));
        }
        Check.passed("no partition is created by a writer that must not");
    }

    /** Today's and tomorrow's partitions appear by themselves. */
    private static void automatic(Session session) throws Exception {
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(
                                Schema.newBuilder()
                                        .column("id", DataTypes.INT())
                                        .column("day", DataTypes.STRING())
                                        .build())
                        .partitionedBy("day")
                        .distributedBy(1)
                        .property("table.auto-partition.enabled", "true")
                        .property("table.auto-partition.time-unit", "DAY")
                        .property("table.auto-partition.time-zone", "UTC")
                        .property("table.auto-partition.num-precreate", "2")
                        .build();
        DateTimeFormatter format = DateTimeFormatter.ofPattern("yyyyMMdd");
        LocalDate today = LocalDate.now(ZoneOffset.UTC);
        try (Table table = session.create("automatic", descriptor)) {
            TablePath path = table.getTableInfo().getTablePath();
            long deadline = System.currentTimeMillis() + 10_000;
            TreeSet<String> names = names(session, path);
            while (names.size() < 2 && System.currentTimeMillis() < deadline) {
                Thread.sleep(Duration.ofMillis(50).toMillis());
                names = names(session, path);
            }
            Check.equal(
                    "automatic partitions",
                    new TreeSet<>(
                            List.of(today.format(format), today.plusDays(1).format(format))),
                    names);
            Session.append(table, List.of(asList(1, today.format(format))));
            Check.equal(
                    "rows of today's partition",
                    Map.of(today.format(format), List.of(asList(1, today.format(format)))),
                    read(session, table));
            Check.failsWith(
                    "a partition that retention would drop at once",
                    Errors.PARTITION_SPEC_INVALID_EXCEPTION,
                    () ->
                            session.admin
                                    .createPartition(
                                            path,
                                            new PartitionSpec(Map.of("day", "20200101")),
                                            false)
                                    .get());
        }
        Check.passed("automatic partitions");
    }
}
