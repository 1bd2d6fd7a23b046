#!/usr/bin/env bash
# The main job on real data: a log table is made from a file, loaded, followed
# while more arrives, projected and filtered; a table whose rows change lives
# through a day, followed as changes and looked up; and everything survives a
# kill -9 in the middle of a load. Every count is checked: status 1 if one is wrong.
#
#   make demo
#   MAINSTEM_BIN=path/to/mainstem demo/demo.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=$here/data
binary=$(realpath "${MAINSTEM_BIN:-$here/../target/release/mainstem}")
if [ ! -x "$binary" ]; then
    echo "there is no $binary: run 'make demo'" >&2
    exit 1
fi

# What the files hold (demo/data/README.md), and what follows from it.
readonly FLIGHTS=336776 WEATHER=26115 PLANES=3322
readonly FIRST_PART=109119 TWO_PARTS=224910
readonly LATE_IN_PART_2=13  # departures in part 2 that were over ten hours late
readonly VERY_LATE=610      # departures of the year that were over five hours late
# The 8th of February, when the blizzard Nemo came: flights, and what became of them.
readonly DAY=930 DEPARTED=458 ARRIVED=456 CANCELLED=472

bold='' dim='' green='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

chapter() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
say() { printf '%s%s%s\n' "$dim" "$1" "$plain"; }
fail() {
    printf '%s%s%s\n' "$red" "$1" "$plain" >&2
    exit 1
}

# Shows a command as one would type it, long ones on several lines.
show() {
    local word line="$ mainstem"
    printf '%s' "$green"
    for word in "$@"; do
        case $word in
            *\'*) word="\"$word\"" ;;
            *[\ \>\<\"]*) word="'$word'" ;;
            *) word=${word/#$data\//demo/data/} ;;
        esac
        if [ $((${#line} + ${#word})) -gt 96 ] && [[ $word != [\'\"]* ]]; then
            printf '%s \\\n' "$line"
            line='   '
        fi
        line+=" $word"
    done
    printf '%s%s\n' "$line" "$plain"
}

run() {
    show "$@"
    "$binary" "$@"
}

# The rows of a table must be so many.
expect() {
    local what=$1 wanted=$2 got
    shift 2
    got=$("$binary" consume "$@" --count)
    if [ "$got" != "$wanted" ]; then
        fail "$what: $got rows instead of $wanted"
    fi
    printf '%s  ✓ %s: %s rows%s\n' "$green" "$what" "$got" "$plain"
}

now_ms() {
    # Milliseconds, also where date knows no %3N.
    local us=${EPOCHREALTIME/[.,]/}
    echo $((us / 1000))
}

work=$(mktemp -d "${TMPDIR:-/tmp}/mainstem-demo.XXXXXX")
server=''
jobs_to_end=()
cleanup() {
    local status=$? job
    for job in "${jobs_to_end[@]}" "$server"; do
        if [ -n "$job" ] && kill -0 "$job" 2>/dev/null; then
            kill "$job" 2>/dev/null || true
            wait "$job" 2>/dev/null || true
        fi
    done
    if [ "$status" -ne 0 ] && [ -s "$work/server.log" ]; then
        echo "the server's log ends:" >&2
        tail -n 15 "$work/server.log" >&2
    fi
    rm -rf "$work"
}
trap cleanup EXIT

port=$("$here/../scripts/free-port.sh" 9123)
http=$("$here/../scripts/free-port.sh" 9124)
export MAINSTEM_SERVER=127.0.0.1:$port

# Starts the server and says how long it took until it listened.
start_server() {
    local began
    began=$(now_ms)
    "$binary" start --data-dir "$work/data" \
        -D "bind.listeners=FLUSS://127.0.0.1:$port" \
        -D "mainstem.http.listen=127.0.0.1:$http" \
        >>"$work/server.log" 2>&1 </dev/null &
    server=$!
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        kill -0 "$server" 2>/dev/null || fail "the server did not start"
        [ $(($(now_ms) - began)) -lt 10000 ] || fail "the server does not listen after 10 s"
        sleep 0.01
    done
    say "  listening on 127.0.0.1:$port after $(($(now_ms) - began)) ms"
}

began=$SECONDS
printf '%sMainstem: the flights of New York, 2013%s\n' "$bold" "$plain"
say "$FLIGHTS departures of a year, with planes, airports, airlines and hourly weather (CC0)."

chapter '1. One process, nothing else'
printf '%s$ mainstem start --data-dir %s/data%s\n' "$green" "$work" "$plain"
start_server

chapter '2. A log table from the columns of a file, and the first four months'
run produce nyc.flights "$data/flights-1.parquet" --create --buckets 4
run table describe nyc.flights
expect 'January to April' "$FIRST_PART" nyc.flights

chapter '3. Only some columns leave the server'
run consume nyc.flights --columns carrier,flight,origin,dest,dep_delay --limit 5 --format table

chapter '4. A reader follows what is late, live, while four more months arrive'
since=$(now_ms)
# Its rows end when all that are known to be in the file have come.
follower=(consume nyc.flights --follow --from "$since" --limit "$LATE_IN_PART_2"
    --columns time_hour,carrier,flight,origin,dest,dep_delay
    --where 'dep_delay > 600' --format csv)
show "${follower[@]}"
"$binary" "${follower[@]}" >"$work/late.csv" &
follow=$!
jobs_to_end+=("$follow")
run produce nyc.flights "$data/flights-2.parquet"
for _ in {1..200}; do
    kill -0 "$follow" 2>/dev/null || break
    sleep 0.05
done
kill -0 "$follow" 2>/dev/null && fail "the follower did not see all late flights: $(cat "$work/late.csv")"
wait "$follow" || fail 'the follower failed'
cat "$work/late.csv"
late=$(grep -c '^2013' "$work/late.csv" || true)
[ "$late" -eq "$LATE_IN_PART_2" ] || fail "the follower saw $late late flights instead of $LATE_IN_PART_2"
expect 'January to August' "$TWO_PARTS" nyc.flights

chapter '5. CSV with NA for null: planes, airports, airlines'
run produce nyc.planes "$data/planes.csv" --create --null NA
run produce nyc.airports "$data/airports.csv" --create --null NA
run produce nyc.airlines "$data/airlines.csv" --create
expect 'planes' "$PLANES" nyc.planes

chapter '6. A table whose rows change: flight status by flight and day'
run table create nyc.status \
    --column 'carrier STRING' --column 'flight SMALLINT' --column 'month TINYINT' \
    --column 'day TINYINT' --column 'origin STRING' --column 'dest STRING' \
    --column 'sched_dep_time SMALLINT' --column 'status STRING' \
    --column 'dep_time SMALLINT' --column 'dep_delay SMALLINT' \
    --column 'arr_time SMALLINT' --column 'arr_delay SMALLINT' \
    --primary-key carrier,flight,month,day --bucket-key carrier,flight --buckets 4
say 'The plan of four months: some columns of the rows, the others are null.'
run upsert nyc.status "$data/flights-1.parquet" --columns origin,dest,sched_dep_time
expect 'flights planned' "$FIRST_PART" nyc.status --rows

say 'The 8th of February 2013: the blizzard Nemo is coming. One flight is followed,'
say 'every change of it, while the day is put into the table hour by hour.'
flight=(DL 2285 2 8)
follower=(consume nyc.status --follow --limit 7 --format csv
    --columns status,dep_time,dep_delay,arr_time,arr_delay
    --where "carrier = 'DL' and flight = 2285 and month = 2 and day = 8")
show "${follower[@]}"
"$binary" "${follower[@]}" >"$work/changes.csv" &
follow=$!
jobs_to_end+=("$follow")
# What happened, by the time until which it had: one file per kind of event,
# with the columns that the event knows.
mkdir "$work/day"
"$binary" consume nyc.flights --where 'month = 2 and day = 8' --format csv \
    --columns carrier,flight,month,day,sched_dep_time,dep_time,dep_delay,arr_time,arr_delay |
    awk -F, -v OFS=, -v folder="$work/day" '
        function put(time, event, columns, values,   until, file) {
            until = time < 900 ? "0900" : time < 1300 ? "1300" : time < 1600 ? "1600" : "2400"
            file = folder "/" until "-" event ".csv"
            if (!(file in begun)) { print "carrier,flight,month,day,status" columns > file; begun[file] = 1 }
            print $1, $2, $3, $4, event values > file
        }
        NR == 1 { next }
        { put(0, "scheduled", "", "") }
        $6 == "" { put($5, "cancelled", "", "") }
        $6 != "" { put($6, "departed", ",dep_time,dep_delay", "," $6 "," $7) }
        $8 != "" { put($8, "arrived", ",arr_time,arr_delay", "," $8 "," $9) }'
say '  $ mainstem upsert nyc.status 0900-departed.csv   # and so on: partial updates'
for until in 0900 1300 1600 2400; do
    for event in scheduled departed arrived cancelled; do
        file=$work/day/$until-$event.csv
        [ ! -s "$file" ] || "$binary" upsert nyc.status "$file" --quiet >"$work/upsert.out" ||
            fail "the upsert of $until-$event.csv failed"
    done
    say "  until ${until:0:2}:00"
    # It has arrived before the evening.
    [ "$until" = 2400 ] || run lookup nyc.status "${flight[@]}" --format table \
        --columns status,sched_dep_time,dep_time,dep_delay,arr_time,arr_delay
done
for _ in {1..200}; do
    kill -0 "$follow" 2>/dev/null || break
    sleep 0.05
done
kill -0 "$follow" 2>/dev/null && fail "the follower did not see all changes: $(cat "$work/changes.csv")"
wait "$follow" || fail 'the follower of the changes failed'
say 'What the follower saw: planned, scheduled, five hours late, arrived.'
cat "$work/changes.csv"
changes=$(cut -d, -f1,2 "$work/changes.csv" | tr '\n' ' ')
[ "$changes" = '_change_type,status +I, -U, +U,scheduled -U,scheduled +U,departed -U,departed +U,arrived ' ] ||
    fail "these are not the changes of that flight: $changes"
that_day='month = 2 and day = 8'
expect 'arrived that day' "$ARRIVED" nyc.status --rows --where "$that_day and status = 'arrived'"
expect 'cancelled' "$CANCELLED" nyc.status --rows --where "$that_day and status = 'cancelled'"
expect 'all changes' $((FIRST_PART + 2 * (DAY + DEPARTED + ARRIVED + CANCELLED))) nyc.status

chapter '7. kill -9 while two writers are at work and a reader follows'
run table create nyc.weather \
    --column 'origin STRING NOT NULL' --column 'year SMALLINT' --column 'month TINYINT' \
    --column 'day TINYINT' --column 'hour TINYINT' --column 'temp DOUBLE' \
    --column 'dewp DOUBLE' --column 'humid DOUBLE' --column 'wind_dir SMALLINT' \
    --column 'wind_speed DOUBLE' --column 'wind_gust DOUBLE' --column 'precip DOUBLE' \
    --column 'pressure DOUBLE' --column 'visib DOUBLE' --column 'time_hour TIMESTAMP_LTZ(3)'
# The weather comes through a pipe, some hundred hours at a time.
feed() {
    gzip -dc "$data/weather.csv.gz" | awk '{ print } NR % 900 == 0 { fflush(); system("sleep 0.1") }'
}
say '  $ gzip -dc demo/data/weather.csv.gz | slowly | mainstem produce nyc.weather - --format csv --null NA'
feed | "$binary" produce nyc.weather - --format csv --null NA --batch-rows 300 >"$work/weather.out" 2>&1 &
weather=$!
"$binary" consume nyc.weather --follow --count --limit "$WEATHER" >"$work/followed.out" 2>&1 &
follow=$!
sleep 1
say '  $ mainstem produce nyc.flights demo/data/flights-3.parquet'
# Small batches, or it would be over before anybody can do something to it.
"$binary" produce nyc.flights "$data/flights-3.parquet" --batch-rows 40 >"$work/flights.out" 2>&1 &
flights=$!
jobs_to_end+=("$weather" "$follow" "$flights")
sleep 0.15
kill -9 "$server"
wait "$server" 2>/dev/null || true
kill -0 "$weather" 2>/dev/null || fail 'the weather had already ended: nothing was interrupted'
at_work='the weather'
if kill -0 "$flights" 2>/dev/null; then
    at_work='both'
fi
printf '%s  kill -9 %s%s  (at work: %s)\n' "$red" "$server" "$plain" "$at_work"
sleep 0.3
start_server
wait "$flights" || fail "the load of the flights failed: $(cat "$work/flights.out")"
say "  flights: $(tail -n 1 "$work/flights.out")"
wait "$weather" || fail "the load of the weather failed: $(cat "$work/weather.out")"
say "  weather: $(tail -n 1 "$work/weather.out")"
for _ in {1..200}; do
    kill -0 "$follow" 2>/dev/null || break
    sleep 0.05
done
kill -0 "$follow" 2>/dev/null && fail 'the reader of the weather is still waiting for rows'
wait "$follow" || fail "the reader of the weather failed: $(cat "$work/followed.out")"
followed=$(tail -n 1 "$work/followed.out")
[ "$followed" = "$WEATHER" ] || fail "the reader that lived through it saw $followed hours of weather instead of $WEATHER"
say 'Both writers and the reader went on by themselves. Nothing lost, nothing twice:'
expect 'all flights of the year' "$FLIGHTS" nyc.flights
expect 'all hours of weather' "$WEATHER" nyc.weather
expect 'over five hours late' "$VERY_LATE" nyc.flights --columns dep_delay --where 'dep_delay > 300'
expect 'flights cancelled in the blizzard' "$CANCELLED" nyc.status --rows --where "$that_day and status = 'cancelled'"
expect 'wind above 30 mph at Kennedy' 37 nyc.weather --columns origin,wind_speed --where "wind_speed > 30 and origin = 'JFK'"

chapter '8. What is there now'
run status

printf '\n%sDone in %d s.%s Start a server of your own and try:\n' "$bold" $((SECONDS - began)) "$plain"
cat <<'NEXT'

  mainstem start
  mainstem produce nyc.flights demo/data/flights-1.parquet --create --buckets 4
  mainstem consume nyc.flights --follow --columns carrier,flight,dest,dep_delay --where "dep_delay > 120"
  mainstem upsert nyc.status demo/data/flights-1.parquet --create --primary-key carrier,flight,month,day
  mainstem lookup nyc.status DL 2285 2 8
  mainstem table alter nyc.flights --add-column "note STRING"
  curl http://127.0.0.1:9124/metrics

Any Apache Fluss 1.0 client works too: bootstrap server 127.0.0.1:9123.
NEXT
