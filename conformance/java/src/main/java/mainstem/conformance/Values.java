package mainstem.conformance;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.DataGetters;
import org.apache.fluss.row.Decimal;
import org.apache.fluss.row.GenericArray;
import org.apache.fluss.row.GenericMap;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.row.InternalArray;
import org.apache.fluss.row.InternalMap;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.row.TimestampLtz;
import org.apache.fluss.row.TimestampNtz;
import org.apache.fluss.types.ArrayType;
import org.apache.fluss.types.BinaryType;
import org.apache.fluss.types.CharType;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DecimalType;
import org.apache.fluss.types.LocalZonedTimestampType;
import org.apache.fluss.types.MapType;
import org.apache.fluss.types.RowType;
import org.apache.fluss.types.TimestampType;

/**
 * Values in a form that can be compared: boxed numbers (so NaN equals NaN and −0.0 differs from
 * 0.0), String, ByteBuffer for bytes, BigDecimal, Integer for dates (days) and times (milliseconds),
 * {@link Instant}, List, Map, and {@link Struct}.
 */
final class Values {
    private Values() {}

    /** A value of both timestamp types. */
    record Instant(long milliseconds, int nanoseconds) {}

    /** A value of a ROW. */
    record Struct(List<Object> fields) {}

    static ByteBuffer bytes(byte[] bytes) {
        return ByteBuffer.wrap(bytes);
    }

    /** The client's form of {@code value}. */
    static Object internal(Object value, DataType type) {
        if (value == null) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case CHAR:
            case STRING:
                return BinaryString.fromString((String) value);
            case BINARY:
            case BYTES:
                return ((ByteBuffer) value).array();
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        (BigDecimal) value, decimal.getPrecision(), decimal.getScale());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                Instant wall = (Instant) value;
                return TimestampNtz.fromMillis(wall.milliseconds(), wall.nanoseconds());
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Instant instant = (Instant) value;
                return TimestampLtz.fromEpochMillis(instant.milliseconds(), instant.nanoseconds());
            case ARRAY:
                DataType element = ((ArrayType) type).getElementType();
                return new GenericArray(
                        ((List<?>) value).stream().map(item -> internal(item, element)).toArray());
            case MAP:
                MapType map = (MapType) type;
                Map<Object, Object> entries = new LinkedHashMap<>();
                ((Map<?, ?>) value)
                        .forEach(
                                (key, item) ->
                                        entries.put(
                                                internal(key, map.getKeyType()),
                                                internal(item, map.getValueType())));
                return new GenericMap(entries);
            case ROW:
                return row(((Struct) value).fields(), ((RowType) type).getFieldTypes());
            default:
                return value;
        }
    }

    static GenericRow row(List<?> values, List<DataType> types) {
        GenericRow row = new GenericRow(types.size());
        for (int field = 0; field < types.size(); field++) {
            row.setField(field, internal(values.get(field), types.get(field)));
        }
        return row;
    }

    /** Reads one position of a row or an array. */
    static Object read(DataGetters from, int position, DataType type) {
        if (from.isNullAt(position)) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return from.getBoolean(position);
            case TINYINT:
                return from.getByte(position);
            case SMALLINT:
                return from.getShort(position);
            case INTEGER:
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return from.getInt(position);
            case BIGINT:
                return from.getLong(position);
            case FLOAT:
                return from.getFloat(position);
            case DOUBLE:
                return from.getDouble(position);
            case CHAR:
                return from.getChar(position, ((CharType) type).getLength()).toString();
            case STRING:
                return from.getString(position).toString();
            case BINARY:
                return bytes(from.getBinary(position, ((BinaryType) type).getLength()));
            case BYTES:
                return bytes(from.getBytes(position));
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return from.getDecimal(position, decimal.getPrecision(), decimal.getScale())
                        .toBigDecimal();
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                TimestampNtz wall =
                        from.getTimestampNtz(position, ((TimestampType) type).getPrecision());
                return new Instant(wall.getMillisecond(), wall.getNanoOfMillisecond());
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                TimestampLtz instant =
                        from.getTimestampLtz(
                                position, ((LocalZonedTimestampType) type).getPrecision());
                return new Instant(instant.getEpochMillisecond(), instant.getNanoOfMillisecond());
            case ARRAY:
                return list(from.getArray(position), ((ArrayType) type).getElementType());
            case MAP:
                InternalMap map = from.getMap(position);
                List<Object> keys = list(map.keyArray(), ((MapType) type).getKeyType());
                List<Object> items = list(map.valueArray(), ((MapType) type).getValueType());
                Map<Object, Object> entries = new LinkedHashMap<>();
                for (int entry = 0; entry < keys.size(); entry++) {
                    entries.put(keys.get(entry), items.get(entry));
                }
                Check.equal("different keys of a map " + keys + " of " + type, keys.size(), entries.size());
                return entries;
            case ROW:
                List<DataType> types = ((RowType) type).getFieldTypes();
                return new Struct(cells(from.getRow(position, types.size()), types));
            default:
                throw new Check.Wrong("no reader for " + type);
        }
    }

    /** All fields of a row. */
    static List<Object> cells(InternalRow row, List<DataType> types) {
        Check.equal("fields of a row", types.size(), row.getFieldCount());
        List<Object> cells = new ArrayList<>(types.size());
        for (int field = 0; field < types.size(); field++) {
            cells.add(read(row, field, types.get(field)));
        }
        return cells;
    }

    private static List<Object> list(InternalArray array, DataType element) {
        List<Object> items = new ArrayList<>(array.size());
        for (int position = 0; position < array.size(); position++) {
            items.add(read(array, position, element));
        }
        return items;
    }
}
