package mainstem.conformance;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.fluss.client.admin.ClusterHealth;
import org.apache.fluss.client.admin.ProducerOffsetsResult;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.metadata.DatabaseDescriptor;
import org.apache.fluss.metadata.DatabaseSummary;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableChange;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TableInfo;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.rpc.protocol.Errors;
import org.apache.fluss.types.DataTypes;

/** Databases, the life of a table, servers, health, configuration, producer offsets. */
final class Cluster {
    private Cluster() {}

    static void run(Session session) throws Exception {
        System.out.println("databases, tables, cluster");
        databases(session);
        tables(session);
        primaryKeyTables(session);
        services(session);
    }

    private static void databases(Session session) throws Exception {
        session.admin.dropDatabase(Session.DATABASE, true, true).get();
        DatabaseDescriptor descriptor =
                DatabaseDescriptor.builder()
                        .comment("tables of the Java client")
                        .customProperty("owner", "conformance")
                        .build();
        session.admin.createDatabase(Session.DATABASE, descriptor, false).get();
        Check.failsWith(
                "create the database again",
                Errors.DATABASE_ALREADY_EXIST,
                () -> session.admin.createDatabase(Session.DATABASE, descriptor, false).get());
        session.admin.createDatabase(Session.DATABASE, descriptor, true).get();
        DatabaseDescriptor read =
                session.admin.getDatabaseInfo(Session.DATABASE).get().getDatabaseDescriptor();
        Check.equal(
                "comment of the database",
                Optional.of("tables of the Java client"),
                read.getComment());
        Check.equal(
                "properties of the database",
                Map.of("owner", "conformance"),
                read.getCustomProperties());
        Check.that(
                "the database is listed",
                session.admin.listDatabases().get().contains(Session.DATABASE));
        Check.that("the database exists", session.admin.databaseExists(Session.DATABASE).get());
        Check.failsWith(
                "drop a database that is not there",
                Errors.DATABASE_NOT_EXIST,
                () -> session.admin.dropDatabase("no_such_database", false, true).get());
        Check.passed("databases");
    }

    private static void tables(Session session) throws Exception {
        TablePath path = Session.path("lifecycle");
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(
                                Schema.newBuilder()
                                        .column("a", DataTypes.INT().copy(false))
                                        .withComment("first")
                                        .column("b", DataTypes.STRING())
                                        .build())
                        .distributedBy(3, "a")
                        .property("table.log.ttl", "3 d")
                        .customProperty("team", "storage")
                        .comment("a table")
                        .build();
        session.admin.createTable(path, descriptor, false).get();
        Check.failsWith(
                "create the table again",
                Errors.TABLE_ALREADY_EXIST,
                () -> session.admin.createTable(path, descriptor, false).get());
        session.admin.createTable(path, descriptor, true).get();
        TableInfo info = session.admin.getTableInfo(path).get();
        Check.equal("buckets", 3, info.getNumBuckets());
        Check.equal("bucket keys", List.of("a"), info.getBucketKeys());
        Check.equal("comment", Optional.of("a table"), info.getComment());
        Check.equal("schema", descriptor.getSchema(), info.getSchema());
        Check.equal(
                "custom properties", Map.of("team", "storage"), info.getCustomProperties().toMap());
        List<DatabaseSummary> summaries = session.admin.listDatabaseSummaries().get();
        Check.equal(
                "tables in the summary",
                List.of(1),
                summaries.stream()
                        .filter(summary -> summary.getDatabaseName().equals(Session.DATABASE))
                        .map(DatabaseSummary::getTableCount)
                        .toList());
        session.admin
                .alterTable(
                        path,
                        List.of(TableChange.set("table.log.ttl", "5 d"), TableChange.reset("team")),
                        false)
                .get();
        TableInfo altered = session.admin.getTableInfo(path).get();
        Check.equal(
                "altered property", "5 d", altered.getProperties().toMap().get("table.log.ttl"));
        Check.equal("reset property", Map.of(), altered.getCustomProperties().toMap());
        Check.failsWith(
                "alter a property that cannot be altered",
                Errors.INVALID_ALTER_TABLE_EXCEPTION,
                () ->
                        session.admin
                                .alterTable(
                                        path,
                                        List.of(TableChange.set("table.log.format", "INDEXED")),
                                        false)
                                .get());
        Check.failsWith(
                "drop a database that is not empty",
                Errors.DATABASE_NOT_EMPTY,
                () -> session.admin.dropDatabase(Session.DATABASE, false, false).get());
        session.admin.dropTable(path, false).get();
        Check.failsWith(
                "describe a dropped table",
                Errors.TABLE_NOT_EXIST,
                () -> session.admin.getTableInfo(path).get());
        Check.that("the table is gone", !session.admin.tableExists(path).get());
        Check.passed("tables: create, describe, alter, drop");
    }

    /** Only their definition: the data of primary-key tables is not asked for here. */
    private static void primaryKeyTables(Session session) throws Exception {
        TablePath path = Session.path("with_key");
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(
                                Schema.newBuilder()
                                        .column("id", DataTypes.BIGINT())
                                        .column("name", DataTypes.STRING())
                                        .primaryKey("id")
                                        .build())
                        .distributedBy(2)
                        .build();
        session.admin.createTable(path, descriptor, false).get();
        TableInfo info = session.admin.getTableInfo(path).get();
        Check.equal("primary key", List.of("id"), info.getPrimaryKeys());
        Check.equal("bucket keys of a primary key", List.of("id"), info.getBucketKeys());
        session.admin.dropTable(path, false).get();
        Check.passed("primary-key tables: create, describe, drop");
    }

    private static void services(Session session) throws Exception {
        Check.that(
                "the cluster has servers", !session.admin.getServerNodes().get().isEmpty());
        session.admin.describeClusterConfigs().get();
        TableDescriptor descriptor =
                TableDescriptor.builder()
                        .schema(Schema.newBuilder().column("a", DataTypes.INT()).build())
                        .distributedBy(2)
                        .build();
        try (Table table = session.create("produced", descriptor)) {
            ClusterHealth health = session.admin.getClusterHealth().get();
            Check.that("replicas are counted: " + health, health.getNumReplicas() >= 2);
            Check.equal(
                    "all replicas are in sync", health.getNumReplicas(), health.getInSyncReplicas());
            long id = table.getTableInfo().getTableId();
            Map<TableBucket, Long> offsets =
                    Map.of(new TableBucket(id, 0), 7L, new TableBucket(id, 1), 0L);
            session.admin.registerProducerOffsets("conformance", offsets).get();
            ProducerOffsetsResult read = session.admin.getProducerOffsets("conformance").get();
            Check.equal("producer offsets", Map.of(id, offsets), read.getTableOffsets());
            session.admin.deleteProducerOffsets("conformance").get();
        }
        Check.passed("servers, configuration, health, producer offsets");
    }
}
