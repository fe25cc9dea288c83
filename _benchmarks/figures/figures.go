// Package figures keeps measured figures, which tables and charts show.
package figures

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Figure is one cell of a table.
type Figure struct {
	Table, Row, Column string
	Value              float64 // for charts
	Text               string  // for tables: the value with its unit, and more
}

// Figures are in the order of the tables, and of the rows and columns of each.
type Figures []Figure

// Set adds f, or replaces the figure in the same cell.
func (all *Figures) Set(f Figure) {
	if i := all.index(f.Table, f.Row, f.Column); i >= 0 {
		(*all)[i] = f
		return
	}
	*all = append(*all, f)
}

func (all Figures) index(table, row, column string) int {
	return slices.IndexFunc(all, func(f Figure) bool { return f.Table == table && f.Row == row && f.Column == column })
}

// Get returns the figure in a cell, and the zero Figure if there is none.
func (all Figures) Get(table, row, column string) Figure {
	if i := all.index(table, row, column); i >= 0 {
		return all[i]
	}
	return Figure{}
}

// Beside returns all figures with the texts of earlier figures of the same cells in parentheses.
func (all Figures) Beside(earlier Figures) Figures {
	both := slices.Clone(all)
	for i, f := range both {
		if text := earlier.Get(f.Table, f.Row, f.Column).Text; text != "" {
			both[i].Text += " (" + text + ")"
		}
	}
	return both
}

// Tables returns the names of all tables.
func (all Figures) Tables() []string { return all.names("", func(f Figure) string { return f.Table }) }

// Rows returns the names of the rows of a table.
func (all Figures) Rows(table string) []string {
	return all.names(table, func(f Figure) string { return f.Row })
}

// Columns returns the names of the columns of a table.
func (all Figures) Columns(table string) []string {
	return all.names(table, func(f Figure) string { return f.Column })
}

// names returns the different names of the figures of a table, or of all tables if table is empty.
func (all Figures) names(table string, name func(Figure) string) (names []string) {
	for _, f := range all {
		if n := name(f); (table == "" || f.Table == table) && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// Markdown returns a table in Markdown. The rows of weir are bold.
func (all Figures) Markdown(table string) string {
	columns := all.Columns(table)
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n%s|\n", strings.Join(columns, " | "), strings.Repeat("|---", len(columns)+1))
	for _, row := range all.Rows(table) {
		mark := ""
		if strings.HasPrefix(row, "weir") {
			mark = "**"
		}
		fmt.Fprintf(&b, "| %s%s%s |", mark, row, mark)
		for _, column := range columns {
			if text := all.Get(table, row, column).Text; text != "" {
				fmt.Fprintf(&b, " %s%s%s", mark, text, mark)
			}
			b.WriteString(" |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var header = []string{"table", "row", "column", "value", "text"}

// Write writes all figures to a CSV file.
func (all Figures) Write(file string) error {
	var b strings.Builder
	w := csv.NewWriter(&b)
	records := [][]string{header}
	for _, f := range all {
		records = append(records, []string{f.Table, f.Row, f.Column, strconv.FormatFloat(f.Value, 'g', 6, 64), f.Text})
	}
	if err := w.WriteAll(records); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// Read reads a file that Write has written.
func Read(file string) (all Figures, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	records, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil || len(records) == 0 || !slices.Equal(records[0], header) {
		return nil, fmt.Errorf("%s is not a file of figures: %w", file, err)
	}
	for _, r := range records[1:] {
		value, err := strconv.ParseFloat(r[3], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, Figure{r[0], r[1], r[2], value, r[4]})
	}
	return all, nil
}

// Thousands returns n with three digits, and a space between the thousands: 47 200.
func Thousands(n float64) string {
	unit := 1.0
	for n >= 1000*unit {
		unit *= 10
	}
	digits := strconv.FormatFloat(float64(int(n/unit+0.5))*unit, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}
