from xml.etree import ElementTree

from specc.distill.learning_curve import learning_curve_svg
from specc.distill.measurements import CurvePoint

SVG = "{http://www.w3.org/2000/svg}"


def test_each_panel_has_a_line_a_temperature_from_bottom_to_top() -> None:
    curve = [CurvePoint(1, 60.0, 1000, 3.0, 0.0, 0.0, 1.0), CurvePoint(2, 120.0, 2000, 2.0, 1.0, 0.5, 2.0)]
    drawing = ElementTree.fromstring(learning_curve_svg(curve))
    lines = [line.get("points") for line in drawing.iter(f"{SVG}polyline")]
    assert lines == ["160.0,200.0 320.0,0.0", "160.0,200.0 320.0,100.0"] * 2
    words = [text.text for text in drawing.iter(f"{SVG}text")]
    assert "tokens trained on (thousands)" in words
    assert "minutes of training" in words


def test_a_curve_of_one_point_can_be_drawn() -> None:
    ElementTree.fromstring(learning_curve_svg([CurvePoint(0, 0.0, 0, float("nan"), 0.1, 0.1, 1.1)]))
