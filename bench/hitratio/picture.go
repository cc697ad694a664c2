package main

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"os"
	"slices"
	"strconv"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The picture has two panels for each trace, hits over the size of the cache: in
// percent of the requests, beside the optimum; and what is more than LRU has, which
// spreads the caches apart. It shows caches only where they held no more than their
// size. It is as wide as GitHub shows it.

const (
	pictureWidth = 800 // pixels
	dotsPerInch  = 96
	panelHeight  = 220
	panelColumns = 2
	lineHeight   = 20 // of the legend
)

var (
	inkColor   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faintColor = color.RGBA{0x80, 0x80, 0x80, 0xff}
	gridColor  = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
)

// lineStyles tell caches apart; those that share a color differ in dashes. Others get
// what of otherColors is left.
var lineStyles = map[string]draw.LineStyle{
	self:         {Color: color.RGBA{0xd9, 0x5f, 0x02, 0xff}, Width: vg.Points(2.2)},
	"otter":      {Color: color.RGBA{0x1f, 0x4e, 0x9c, 0xff}},
	"theine":     {Color: color.RGBA{0x2c, 0xa0, 0x6c, 0xff}},
	"ristretto":  {Color: color.RGBA{0x8e, 0x44, 0xad, 0xff}},
	"golang-2q":  {Color: color.RGBA{0xc9, 0xa2, 0x00, 0xff}},
	lruName:      {Color: color.RGBA{0x99, 0x99, 0x99, 0xff}},
	"golang-lru": {Color: color.RGBA{0x55, 0x55, 0x55, 0xff}, Dashes: dashed},
	beladyName:   {Color: inkColor},
	boundName:    {Color: inkColor, Dashes: []vg.Length{vg.Points(1), vg.Points(2)}},
}

var dashed = []vg.Length{vg.Points(4), vg.Points(2)}

var otherColors = []color.Color{
	color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0xd6, 0x5c, 0x9b, 0xff}, color.RGBA{0x7a, 0x4b, 0x2a, 0xff},
}

// styleOf returns the line of the i-th cache of a picture.
func styleOf(cache string, i int) draw.LineStyle {
	s, ok := lineStyles[cache]
	if !ok {
		s.Color = otherColors[i%len(otherColors)]
	}
	s.Width = cmp.Or(s.Width, vg.Points(1.2))
	return s
}

// A panel is what is to be seen of one trace.
type panel struct {
	title  string
	y      string
	caches []string
	points map[string]plotter.XYs // by cache, in the order of sizes
}

func (p *panel) add(r Row, y float64) {
	if !slices.Contains(p.caches, r.Cache) {
		p.caches = append(p.caches, r.Cache)
	}
	p.points[r.Cache] = append(p.points[r.Cache], plotter.XY{X: r.Percent, Y: y})
	slices.SortFunc(p.points[r.Cache], func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
}

// panels returns those of all traces: a pair for each, if LRU was among the caches.
func panels(rows []Row) (list []*panel) {
	for _, g := range []grid{newGrid(rows, false), newGrid(rows, true)} {
		var hits, more *panel
		for i, l := range g.lines {
			if trace := l[0].Trace; i == 0 || trace != g.lines[i-1][0].Trace {
				hits = &panel{title: trace, y: "hits in %", points: map[string]plotter.XYs{}}
				more = &panel{title: trace + ", more than LRU", y: "percentage points", points: map[string]plotter.XYs{}}
				list = append(list, hits)
				if _, ok := l.row(lruName); ok {
					list = append(list, more)
				}
			}
			base, ok := l.row(lruName)
			for _, r := range l {
				switch {
				case r.Fair():
					hits.add(r, r.HitPercent())
					if ok {
						more.add(r, r.HitPercent()-base.HitPercent())
					}
				case len(r.Runs) > 0 && optimal(r.Cache):
					hits.add(r, r.HitPercent())
				}
			}
		}
	}
	return slices.DeleteFunc(list, func(p *panel) bool { return len(p.caches) == 0 })
}

// drawPicture writes a PNG file of all that was measured.
func drawPicture(path string, rows []Row) error {
	list := panels(rows)
	if len(list) == 0 {
		return fmt.Errorf("%s: nothing to draw", path)
	}
	var caches []string
	for _, p := range list {
		for _, c := range p.caches {
			if !slices.Contains(caches, c) {
				caches = append(caches, c)
			}
		}
	}
	lines := (len(list) + panelColumns - 1) / panelColumns
	legend := newLegend(caches)
	height := lines*panelHeight + legend.height() + 16
	canvas := vgimg.NewWith(vgimg.UseWH(pixels(pictureWidth), pixels(height)), vgimg.UseDPI(dotsPerInch))
	c := draw.Crop(draw.New(canvas), pixels(8), -pixels(8), pixels(8), -pixels(8))
	legend.draw(c)
	c = draw.Crop(c, 0, 0, 0, -pixels(legend.height()))
	tiles := draw.Tiles{Cols: panelColumns, Rows: lines, PadX: pixels(16), PadY: pixels(12)}
	for i, p := range list {
		drawing, err := p.plot(caches)
		if err != nil {
			return fmt.Errorf("%s: %w", p.title, err)
		}
		drawing.Draw(tiles.At(c, i%panelColumns, i/panelColumns))
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(png.Encode(f, canvas.Image()), f.Close())
}

func pixels(n int) vg.Length { return vg.Length(n) / dotsPerInch * vg.Inch }

func style(size float64, c color.Color) text.Style {
	return text.Style{
		Color:   c,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(size)),
		XAlign:  draw.XLeft,
		YAlign:  draw.YCenter,
		Handler: plot.DefaultTextHandler,
	}
}

// plot draws a panel, with lines in the styles that they have in all panels.
func (p *panel) plot(caches []string) (*plot.Plot, error) {
	drawing := plot.New()
	drawing.Title.Text = p.title
	drawing.Title.TextStyle.Font = style(10, inkColor).Font
	drawing.Title.TextStyle.Font.Weight = xfont.WeightBold
	drawing.Title.Padding = vg.Points(3)
	for _, axis := range []*plot.Axis{&drawing.X, &drawing.Y} {
		axis.Label.TextStyle.Font = style(8, inkColor).Font
		axis.Tick.Label.Font = style(8, inkColor).Font
		axis.Tick.LineStyle.Color, axis.LineStyle.Color = faintColor, faintColor
		axis.Padding = 0
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = gridColor, gridColor
	drawing.Add(grid)
	for i, cache := range slices.Backward(caches) { // the first on top
		points, ok := p.points[cache]
		if !ok {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.LineStyle = styleOf(cache, i)
		dots.GlyphStyle = draw.GlyphStyle{Color: line.Color, Radius: vg.Points(1.5), Shape: draw.CircleGlyph{}}
		drawing.Add(line, dots)
	}
	drawing.X.Label.Text = "entries in % of the keys (log scale)"
	drawing.Y.Label.Text = p.y
	drawing.X.Scale = plot.LogScale{}
	drawing.X.Min, drawing.X.Max = drawing.X.Min/1.25, drawing.X.Max*1.25
	drawing.X.Tick.Marker = p.sizes()
	room := max(0.5, (drawing.Y.Max-drawing.Y.Min)/20)
	drawing.Y.Min, drawing.Y.Max = drawing.Y.Min-room, drawing.Y.Max+room
	drawing.Y.Tick.Marker = plot.TickerFunc(percentTicks)
	return drawing, nil
}

// sizes marks the sizes that were measured.
func (p *panel) sizes() (ticks plot.ConstantTicks) {
	var known []float64
	for _, points := range p.points {
		for _, point := range points {
			if !slices.Contains(known, point.X) {
				known = append(known, point.X)
				ticks = append(ticks, plot.Tick{Value: point.X, Label: strconv.FormatFloat(point.X, 'g', -1, 64)})
			}
		}
	}
	return ticks
}

// percentTicks are some five, at multiples of 1, 2, 5, 10 or 20.
func percentTicks(from, to float64) (ticks []plot.Tick) {
	step := 1.0
	for _, s := range []float64{2, 5, 10, 20} {
		if (to-from)/step > 6 {
			step = s
		}
	}
	for v := math.Ceil(from/step) * step; v <= to; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.Itoa(int(v))})
	}
	return ticks
}

// A legend stands above all panels.
type legend struct {
	caches []string
	style  text.Style
	at     []vg.Point // of each, from the left and the top
	lines  int
}

func newLegend(caches []string) legend {
	l := legend{caches: caches, style: style(9, inkColor), lines: 1}
	var x vg.Length
	for _, c := range caches {
		width := pixels(34) + l.style.Width(c) + pixels(18)
		if x+width > pixels(pictureWidth-16) {
			x = 0
			l.lines++
		}
		l.at = append(l.at, vg.Point{X: x, Y: pixels(l.lines*lineHeight - lineHeight/2)})
		x += width
	}
	return l
}

func (l legend) height() int { return l.lines*lineHeight + 6 }

func (l legend) draw(c draw.Canvas) {
	for i, name := range l.caches {
		x, y := c.Min.X+l.at[i].X, c.Max.Y-l.at[i].Y
		c.StrokeLine2(styleOf(name, i), x, y, x+pixels(28), y)
		c.FillText(l.style, vg.Point{X: x + pixels(34), Y: y + vg.Points(0.7)}, name)
	}
}
