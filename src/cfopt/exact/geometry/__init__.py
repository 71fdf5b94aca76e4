"""The nearest point of a polyhedron, with multipliers that prove it."""

from cfopt.exact.geometry.clash import find_clash as find_clash
from cfopt.exact.geometry.half_spaces import HalfSpaces as HalfSpaces
from cfopt.exact.geometry.half_spaces import Leeway as Leeway
from cfopt.exact.geometry.many import bounds_by_case as bounds_by_case
from cfopt.exact.geometry.many import bounds_of_many as bounds_of_many
from cfopt.exact.geometry.master import Master as Master
from cfopt.exact.geometry.nearest import Nearest as Nearest
from cfopt.exact.geometry.norm import Norm as Norm
from cfopt.exact.geometry.norms import Euclidean as Euclidean
from cfopt.exact.geometry.norms import Largest as Largest
from cfopt.exact.geometry.norms import Taxicab as Taxicab
from cfopt.exact.geometry.support import Support as Support
from cfopt.exact.geometry.system import FAR as FAR
from cfopt.exact.geometry.system import System as System
from cfopt.exact.geometry.tree import Cases as Cases
from cfopt.exact.geometry.tree import Choice as Choice
from cfopt.exact.geometry.tree import Grid as Grid
from cfopt.exact.geometry.tree import Leaf as Leaf
from cfopt.exact.geometry.tree import Split as Split
from cfopt.exact.geometry.tree import Tree as Tree
from cfopt.exact.geometry.tree import case_exclusions as case_exclusions
from cfopt.exact.geometry.tree import leaves as leaves
from cfopt.exact.geometry.tree import listed_cases as listed_cases
from cfopt.exact.geometry.tree import proved_bound as proved_bound
from cfopt.exact.geometry.tree import splits as splits
