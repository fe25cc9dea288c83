// Package trace reads recorded traffic, for simulations.
//
// Each file has one of these formats, plain or compressed by gzip:
//
//	format                 line
//	JSON lines             {"time":"2026-01-02T15:04:05Z","key":"192.0.2.1","request":"GET /a HTTP/1.1"}
//	logfmt                 time=2026-01-02T15:04:05Z key=192.0.2.1 request="GET /a HTTP/1.1"
//	common log format      192.0.2.1 - ann [02/Jan/2026:15:04:05 +0000] "GET /a HTTP/1.1" 200 512
//	combined log format    the same, and more at the end of the line
//	other logs             see textFormats, or a log_format of nginx as the [Format]
//	W3C extended format    2026-01-02 15:04:05 192.0.2.1 GET /a 200      (after a line #Fields)
//	CSV with a header      time,key,cost      (the columns may have another order)
//	CSV without a header   1767366245.25,192.0.2.1,1,pro,GET /a
//
// The format of a file is that of its first line with an event. The lines before it may be those of another program, unless
// the names of fields are in one of them. The fields are found by their names: members of JSON objects, names before "=",
// names after "$" in a log_format, names in the line #Fields, and columns of CSV. The first name whose field has a text
// counts, in the order of defaultNames. [Fields] can choose another name. If a time is a time of day, the field date is that
// of its day. A time that is a duration has effect only if there is no other time.
//
// A name with dots is a member of an object in JSON, such as remote_ip of request, or has the dots itself. An object without
// a key can have a line of another format in its member log, message or MESSAGE, whose time counts before that of the
// object. An array of JSON can have an object in each line.
//
// Before a line, except of CSV and of the W3C format, there may be the words that a collector of logs adds, at most 256
// bytes, such as a time and the name of a container; before the address in the common log format, also a virtual host. A
// host name has to be the first word of a line or in quotation marks. Colors of a terminal are ignored. CSV without a header
// has the columns time, key, cost, plan and route; the columns from the second on may be absent or empty, except for the
// key.
//
// A time is a Unix time in seconds, milliseconds, microseconds or nanoseconds, recognized by its size
// and exact to microseconds; or a text such as 2026-01-02T15:04:05.25Z, 02/Jan/2026:15:04:05 +0000 or
// 2026/01/02 15:04:05. A text without a zone is UTC.
//
// A key that is an address, with or without a port, becomes the key that keyfunc.RemoteIP returns for the client. A list of
// addresses, as in X-Forwarded-For and Forwarded, is the key of one client: the last address that is not private, loopback
// or link-local, or else the first one. A text that contains an address and other text is no key. Any other key is used
// unchanged. A request becomes its method and path, without the query. "-" means that a field is absent. NULs at the
// beginning of a line are ignored.
package trace
