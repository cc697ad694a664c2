package main

import (
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Pictures: bars for the metrics that have Chart set, one picture per case, with
// cases that differ in the number of goroutines side by side; and curves for the
// courses in time. All are as wide as GitHub shows them.

const (
	pictureWidth = 800 // pixels
	dotsPerInch  = 96
	logFrom      = 50 // spread of medians from which a scale is logarithmic
)

var (
	ownColor   = color.RGBA{0xd9, 0x5f, 0x02, 0xff}
	cacheColor = color.RGBA{0x5b, 0x8d, 0xb8, 0xff}
	floorColor = color.RGBA{0xa8, 0xa8, 0xa8, 0xff}
	inkColor   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faintColor = color.RGBA{0x80, 0x80, 0x80, 0xff}
	gridColor  = color.RGBA{0xd4, 0xd4, 0xd4, 0xff}

	// curveColors are told apart without hue too, by lightness.
	curveColors = []color.RGBA{
		ownColor, {0x1f, 0x4e, 0x9c, 0xff}, {0x2c, 0xa0, 0x6c, 0xff}, {0x8e, 0x44, 0xad, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
		{0xc9, 0xa2, 0x00, 0xff}, {0x88, 0x88, 0x88, 0xff},
	}
)

// curves are the peers of which courses are shown, in this order: more would hide
// each other. The others are in results.json.
var curves = []string{self, "otter", "gocache", "ttlcache", "ristretto", "theine", "expirable"}

// A picture is a file of the report. Those of courses have no metric.
type picture struct {
	workload, metric, title, file string
}

// writeCharts draws all pictures of r into dir.
func writeCharts(dir string, r *Results) ([]picture, error) {
	x := newIndex(r)
	var pictures []picture
	for _, name := range x.workloads {
		for _, m := range x.metrics[name] {
			if !m.Chart {
				continue
			}
			for _, pair := range byThreads(x.cases[name]) {
				p, height := barChart(x, name, m, pair)
				if p == nil {
					continue
				}
				c := untold(pair)
				pic := picture{name, m.Name, p.Title.Text, slug(name, m.Name, label(c)) + ".png"}
				if err := savePicture(filepath.Join(dir, pic.file), p, height); err != nil {
					return nil, err
				}
				pictures = append(pictures, pic)
			}
		}
	}
	for _, group := range courses(r.Series) {
		s := group[0]
		pic := picture{s.Workload, "", s.Workload + ": " + s.Name + ", " + label(s.Case),
			slug(s.Workload, "course", s.Name, label(s.Case)) + ".png"}
		p := curveChart(pic.title, group)
		if p == nil {
			continue
		}
		if err := savePicture(filepath.Join(dir, pic.file), p, 420); err != nil {
			return nil, err
		}
		pictures = append(pictures, pic)
	}
	return pictures, nil
}

// byThreads groups cases that differ in nothing but the threads.
func byThreads(cases []Case) [][]Case {
	var groups [][]Case
next:
	for _, c := range cases {
		for i, g := range groups {
			if untold(g) == untold([]Case{c}) {
				groups[i] = append(g, c)
				continue next
			}
		}
		groups = append(groups, []Case{c})
	}
	return groups
}

// untold is the first case without its threads.
func untold(cases []Case) Case {
	c := cases[0]
	c.Threads, c.Quick = 0, false
	return c
}

// slug makes a file's name of words.
func slug(words ...string) string {
	var b strings.Builder
	for _, c := range strings.ReplaceAll(strings.ToLower(strings.Join(words, "-")), "µ", "u") {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			b.WriteRune(c)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
	}
	return strings.TrimSuffix(b.String(), "-")
}

// A bar is one figure; several of them make a peer's row.
type bar struct {
	median, min, max float64
	missing          string // if not "", there is no figure, for this reason
}

// barRow is a peer in a picture.
type barRow struct {
	name  string
	floor bool
	bars  []bar // by case
}

// barChart returns the picture of a metric in cases that belong together, and its
// height; nil if nobody has a figure.
func barChart(x *index, workload string, m Metric, cases []Case) (*plot.Plot, int) {
	var rows []barRow
	var positive []float64
	var any bool
	for _, peer := range x.peers {
		row := barRow{name: peer, floor: describe(peer).Floor}
		var known bool
		for _, c := range cases {
			found, ok := x.find(workload, c, peer, m.Name)
			known = known || ok
			switch {
			case !ok:
				row.bars = append(row.bars, bar{missing: " "})
			case len(found.Values) == 0:
				why, _, _ := strings.Cut(found.Why, ":")
				row.bars = append(row.bars, bar{missing: cmp.Or(why, "–")})
			default:
				any = true
				row.bars = append(row.bars, bar{median: found.Median(), min: found.Min(), max: found.Max()})
				if v := found.Median(); v > 0 {
					positive = append(positive, v)
				}
			}
		}
		if known {
			rows = append(rows, row)
		}
	}
	if !any {
		return nil, 0
	}
	// Best first, then who could not; floors below.
	slices.SortStableFunc(rows, func(a, b barRow) int {
		i := 0
		for i < len(cases)-1 && (a.bars[i].missing != "" || b.bars[i].missing != "") {
			i++
		}
		sign := -1.0
		if m.Better > 0 {
			sign = 1
		}
		return cmp.Or(cmp.Compare(btoi(a.floor), btoi(b.floor)),
			cmp.Compare(btoi(a.allMissing()), btoi(b.allMissing())),
			cmp.Compare(btoi(a.bars[i].missing != ""), btoi(b.bars[i].missing != "")),
			cmp.Compare(sign*b.bars[i].median, sign*a.bars[i].median))
	})

	p := newPlot()
	c := untold(cases)
	p.Title.Text = workload + ": " + m.Name + ", " + label(c)
	if len(cases) == 1 {
		p.Title.Text = workload + ": " + m.Name + ", " + label(cases[0])
	} else {
		p.Title.Text += fmt.Sprintf(", t%d", cases[0].Threads)
		for _, c := range cases[1:] {
			p.Title.Text += fmt.Sprintf(", lighter: t%d", c.Threads)
		}
	}
	p.X.Label.Text = m.Name
	switch {
	case m.Better < 0:
		p.X.Label.Text += ", less is better"
	case m.Better > 0:
		p.X.Label.Text += ", more is better"
	}
	logarithmic := len(positive) > 0 && slices.Max(positive) > logFrom*slices.Min(positive)
	if logarithmic {
		p.X.Label.Text += " (log scale)"
	}

	b := &bars{rows: rows, thickness: vg.Points(9)}
	if len(cases) > 1 {
		b.thickness = vg.Points(8.5)
	}
	rowHeight := b.thickness*vg.Length(len(cases)) + vg.Points(6)
	b.value, b.name = style(8, inkColor), style(9.5, inkColor)
	b.scale(p, logarithmic, positive)
	p.Add(verticalGrid{}, b)
	p.Y.Min, p.Y.Max = -float64(len(rows))+0.5-b.gap(), 0.5
	p.Y.Tick.Label.Font = b.name.Font
	p.Y.LineStyle.Color = faintColor
	p.Y.Tick.Length = 0
	var names plot.ConstantTicks
	for i, row := range rows {
		names = append(names, plot.Tick{Value: b.at(i), Label: row.name})
	}
	p.Y.Tick.Marker = names
	height := vg.Points(62) + rowHeight*vg.Length(float64(len(rows))+b.gap())
	return p, int(height.Dots(dotsPerInch))
}

func (r barRow) allMissing() bool {
	return !slices.ContainsFunc(r.bars, func(b bar) bool { return b.missing == "" })
}

func style(size float64, c color.Color) text.Style {
	return text.Style{
		Color:   c,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(size)),
		XAlign:  draw.XLeft,
		YAlign:  draw.YCenter,
		Handler: plot.DefaultTextHandler,
	}
}

func newPlot() *plot.Plot {
	p := plot.New()
	p.Title.TextStyle.Font = style(11, inkColor).Font
	p.Title.TextStyle.Font.Weight = xfont.WeightBold
	p.Title.TextStyle.Color = inkColor
	p.Title.Padding = vg.Points(7)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font = style(9, inkColor).Font
		a.Label.TextStyle.Color = inkColor
		a.Tick.Label.Font = style(8.5, inkColor).Font
		a.Tick.Label.Color = inkColor
		a.Tick.LineStyle.Color, a.LineStyle.Color = faintColor, faintColor
		a.Padding = 0
	}
	return p
}

// bars is the plotter of rows of bars.
type bars struct {
	rows        []barRow
	thickness   vg.Length
	value, name text.Style
	logarithmic bool
}

// at is the place of row i: from the top down, with a gap before the floors.
func (b *bars) at(i int) float64 {
	if b.rows[i].floor && b.gap() > 0 {
		return -float64(i) - b.gap()
	}
	return -float64(i)
}

func (b *bars) gap() float64 {
	if b.rows[0].floor || !b.rows[len(b.rows)-1].floor {
		return 0
	}
	return 0.5
}

func (b *bars) label(x bar) string {
	if x.missing != "" {
		return x.missing
	}
	return number(x.median)
}

// scale sets the X axis so that whiskers and the values behind them fit.
func (b *bars) scale(p *plot.Plot, logarithmic bool, positive []float64) {
	b.logarithmic = logarithmic
	var names vg.Length
	var least, most float64
	for _, row := range b.rows {
		names = max(names, b.name.Width(row.name))
		for _, x := range row.bars {
			if x.missing == "" {
				least, most = min(least, x.min), max(most, x.max)
			}
		}
	}
	room := vg.Length(pictureWidth)/dotsPerInch*vg.Inch - names - vg.Points(30)
	// share is what remains of the width beside a value written behind a bar.
	share := func(x bar) float64 { return 1 - float64((b.value.Width(b.label(x))+vg.Points(8))/room) }
	if logarithmic {
		p.X.Scale = plot.LogScale{}
		p.X.Min = slices.Min(positive) / 2
		p.X.Max = slices.Max(positive)
		for _, row := range b.rows {
			for _, x := range row.bars {
				if x.missing == "" && x.max > 0 {
					p.X.Max = max(p.X.Max, p.X.Min*math.Pow(x.max/p.X.Min, 1/share(x)))
				}
			}
		}
		p.X.Tick.Marker = plot.TickerFunc(logTicks)
		return
	}
	p.X.Min, p.X.Max = least, most
	if least == most {
		p.X.Max = 1 // all are zero
	}
	for _, row := range b.rows {
		for _, x := range row.bars {
			if x.missing == "" {
				p.X.Max = max(p.X.Max, p.X.Min+(max(x.max, 0)-p.X.Min)/share(x))
			}
		}
	}
	p.X.Tick.Marker = plot.TickerFunc(linearTicks)
}

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	place := func(v float64) vg.Length {
		if b.logarithmic {
			v = max(v, p.X.Min) // zero, and what is left of the scale
		}
		return toX(v)
	}
	line := draw.LineStyle{Color: inkColor, Width: vg.Points(0.7)}
	for i, row := range b.rows {
		fill := cacheColor
		switch {
		case row.name == self:
			fill = ownColor
		case row.floor:
			fill = floorColor
		}
		top := toY(b.at(i)) + b.thickness*vg.Length(len(row.bars))/2
		for j, x := range row.bars {
			y := top - b.thickness*(vg.Length(j)+0.5)
			written := y + vg.Points(0.7) // letters hang a little below their middle
			if x.missing != "" {
				faint := b.value
				faint.Color = faintColor
				c.FillText(faint, vg.Point{X: place(0) + vg.Points(4), Y: written}, x.missing)
				continue
			}
			half := b.thickness/2 - vg.Points(0.4)
			c.FillPolygon(tint(fill, j), rectangle(place(0), y-half, place(x.median), y+half))
			end := max(place(x.median), place(0))
			if x.min != x.max {
				from, to := place(x.min), place(x.max)
				c.StrokeLine2(line, from, y, to, y)
				c.StrokeLine2(line, from, y-half/2, from, y+half/2)
				c.StrokeLine2(line, to, y-half/2, to, y+half/2)
				end = max(end, to)
			}
			c.FillText(b.value, vg.Point{X: end + vg.Points(4), Y: written}, b.label(x))
		}
	}
}

func rectangle(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}

// tint is c for the i-th of bars side by side: lighter ones for more goroutines.
func tint(c color.RGBA, i int) color.RGBA {
	lighter := func(v uint8) uint8 { return uint8(255 - (255-int(v))*55/100) }
	for range i {
		c.R, c.G, c.B = lighter(c.R), lighter(c.G), lighter(c.B)
	}
	return c
}

// verticalGrid draws a line at each labelled tick of X.
type verticalGrid struct{}

func (verticalGrid) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if !t.IsMinor() {
			c.StrokeLine2(draw.LineStyle{Color: gridColor, Width: vg.Points(0.7)}, toX(t.Value), c.Min.Y, toX(t.Value), c.Max.Y)
		}
	}
}

// logTicks labels decades, and 2 and 5 between them if those are few.
func logTicks(from, to float64) []plot.Tick {
	var ticks []plot.Tick
	few := math.Log10(to/from) < 2.5
	for e := math.Floor(math.Log10(from)); e <= math.Log10(to); e++ {
		for digit := 1.0; digit < 10; digit++ {
			v := digit * math.Pow(10, e)
			if v < from || v > to {
				continue
			}
			t := plot.Tick{Value: v}
			if digit == 1 || few && (digit == 2 || digit == 5) {
				t.Label = tickLabel(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// linearTicks are some six, at round numbers.
func linearTicks(from, to float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((to-from)/4)))
	for _, factor := range []float64{5, 2} {
		if (to-from)/(step*factor) >= 4 {
			step *= factor
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(from / step); i*step <= to; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: tickLabel(i*step + 0)}) // + 0 for -0
	}
	return ticks
}

// tickLabel is a round number without needless zeros.
func tickLabel(v float64) string {
	s := number(v)
	if strings.Contains(s, ".") && !strings.Contains(s, "e") {
		digits, unit := strings.CutSuffix(s, "M")
		s = strings.TrimSuffix(strings.TrimRight(digits, "0"), ".")
		if unit {
			s += "M"
		}
	}
	return s
}

// courses groups series into pictures, with the peers of curves.
func courses(all []Series) [][]Series {
	var groups [][]Series
	at := map[string]int{}
	for _, s := range all {
		if !slices.Contains(curves, s.Peer) || len(s.X) == 0 {
			continue
		}
		key := slug(s.Workload, s.Name, label(s.Case))
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b Series) int {
			return cmp.Compare(slices.Index(curves, a.Peer), slices.Index(curves, b.Peer))
		})
	}
	return groups
}

// longestCourse is where courses are cut off, in ms: the slowest would press the
// others together.
const longestCourse = 1500

// curveChart draws courses of several peers, Y on a log scale.
func curveChart(title string, group []Series) *plot.Plot {
	p := newPlot()
	p.Title.Text = title
	p.X.Label.Text = group[0].XUnit
	p.Y.Label.Text = group[0].YUnit + " (log scale)"
	p.Y.Scale = plot.LogScale{}
	p.X.Tick.Marker = plot.TickerFunc(linearTicks)
	p.Y.Tick.Marker = plot.TickerFunc(logTicks)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = gridColor, gridColor
	p.Add(grid, deadline{})
	lines := make([]*plotter.Line, len(group))
	for i, s := range group {
		var points plotter.XYs
		for j := range min(len(s.X), len(s.Y)) {
			if s.Y[j] > 0 && s.X[j] <= longestCourse { // nothing happened, or too short to measure
				points = append(points, plotter.XY{X: s.X[j], Y: s.Y[j]})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			continue // not a number, of which report knows none
		}
		line.Color = curveColors[slices.Index(curves, s.Peer)]
		line.Width = vg.Points(1.2)
		if s.Peer == self {
			line.Width = vg.Points(2.2)
		}
		lines[i] = line
	}
	if !slices.ContainsFunc(lines, func(l *plotter.Line) bool { return l != nil }) {
		return nil
	}
	for _, line := range slices.Backward(lines) { // the first on top
		if line != nil {
			p.Add(line)
		}
	}
	for i, line := range lines {
		if line != nil {
			p.Legend.Add(group[i].Peer, line)
		}
	}
	p.Legend.TextStyle.Font = style(9, inkColor).Font
	p.Legend.TextStyle.Color = inkColor
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.ThumbnailWidth = vg.Points(18)
	p.Legend.Padding = vg.Points(2)
	if p.X.Min == p.X.Max {
		p.X.Max++
	}
	p.Y.Min, p.Y.Max = p.Y.Min/1.5, p.Y.Max*1.5
	return p
}

// deadline is a line where X is 0.
type deadline struct{}

func (deadline) Plot(c draw.Canvas, p *plot.Plot) {
	if toX, _ := p.Transforms(&c); p.X.Min < 0 && p.X.Max > 0 {
		c.StrokeLine2(draw.LineStyle{Color: faintColor, Width: vg.Points(0.7)}, toX(0), c.Min.Y, toX(0), c.Max.Y)
	}
}

// savePicture writes p as a PNG file.
func savePicture(path string, p *plot.Plot, height int) error {
	w, h := vg.Length(pictureWidth)/dotsPerInch*vg.Inch, vg.Length(height)/dotsPerInch*vg.Inch
	canvas := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(dotsPerInch))
	margin := vg.Points(8)
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	// The legend stands beside the plot: nothing is hidden by it.
	legend := p.Legend
	p.Legend = plot.NewLegend()
	side := legend.Rectangle(c).Size().X
	if side > 0 {
		side += vg.Points(8)
		legend.Draw(draw.Crop(c, c.Size().X-side+vg.Points(8), 0, 0, -vg.Points(24)))
	}
	p.Draw(draw.Crop(c, 0, -side, 0, 0))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	return errors.Join(encoder.Encode(f, fewColors(canvas.Image())), f.Close())
}

// fewColors returns the picture in at most 256 colours, which takes a fourth of the
// space: results are kept in the repository. What it gives up are shades at
// the edges of letters.
func fewColors(m image.Image) *image.Paletted {
	few := image.NewPaletted(m.Bounds(), nil)
	indexes := map[color.RGBA]uint8{}
	for y := few.Rect.Min.Y; y < few.Rect.Max.Y; y++ {
		for x := few.Rect.Min.X; x < few.Rect.Max.X; x++ {
			c := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA)
			c.R, c.G, c.B = c.R|15, c.G|15, c.B|15
			i, ok := indexes[c]
			switch {
			case ok:
			case len(few.Palette) < 256:
				i = uint8(len(few.Palette))
				indexes[c] = i
				few.Palette = append(few.Palette, c)
			default:
				i = uint8(few.Palette.Index(c))
			}
			few.SetColorIndex(x, y, i)
		}
	}
	return few
}
